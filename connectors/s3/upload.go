package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/klauspost/compress/gzip"
)

const (
	minPartBytes = 5 << 20 // what the store accepts, but for a last part
	abortTimeout = 10 * time.Second
)

// uploader puts objects, one at a time: small ones by one request, larger ones in parts. An object appears whole or not at
// all. It holds one part in memory.
type uploader struct {
	client    *s3.Client
	bucket    string
	partBytes int
	gzip      *gzip.Writer // nil: not compressed
	acl       types.ObjectCannedACL
	sse       types.ServerSideEncryption
	kmsKey    *string
	progress  *atomic.Uint64 // grows with every request that was answered

	part bytes.Buffer
}

// upload is one object on its way.
type upload struct {
	*uploader
	ctx   context.Context
	key   string
	id    *string // of the multipart upload; nil while one part may do
	parts []types.CompletedPart
}

// put reads content to its end and puts it, compressed if so configured.
func (u *uploader) put(ctx context.Context, key string, tags *string, content io.Reader) error {
	up := &upload{uploader: u, ctx: ctx, key: key}
	u.part.Reset()
	err := up.write(content)
	if err == nil {
		err = up.finish(tags)
	}
	if err != nil && up.id != nil {
		up.abort()
	}
	if u.part.Cap() > 2*u.partBytes { // a rare large write has grown it
		u.part = bytes.Buffer{}
	}
	return err
}

func (up *upload) write(content io.Reader) error {
	if up.gzip == nil {
		_, err := io.Copy(onlyWriter{up}, content)
		return err
	}
	up.gzip.Reset(up)
	if _, err := io.Copy(up.gzip, content); err != nil {
		return err
	}
	return up.gzip.Close()
}

// onlyWriter hides every other method from io.Copy.
type onlyWriter struct{ io.Writer }

// Write takes compressed bytes, and sends a part as soon as it is full.
func (up *upload) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), up.partBytes-up.part.Len())
		up.part.Write(rest[:n])
		rest = rest[n:]
		if up.part.Len() == up.partBytes {
			if err := up.sendPart(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

func (up *upload) sendPart() error {
	if up.id == nil {
		if err := up.begin(); err != nil {
			return err
		}
	}
	number := int32(len(up.parts) + 1)
	out, err := up.client.UploadPart(up.ctx, &s3.UploadPartInput{
		Bucket: &up.bucket, Key: &up.key, UploadId: up.id, PartNumber: &number, Body: bytes.NewReader(up.part.Bytes()),
	})
	if err != nil {
		return err
	}
	up.progress.Add(1)
	up.parts = append(up.parts, types.CompletedPart{ETag: out.ETag, PartNumber: &number})
	up.part.Reset()
	return nil
}

// begin starts a multipart upload, and ends those that a killed task has left under the same key.
func (up *upload) begin() error {
	left, err := up.client.ListMultipartUploads(up.ctx, &s3.ListMultipartUploadsInput{Bucket: &up.bucket, Prefix: &up.key})
	if err != nil {
		return err
	}
	for _, old := range left.Uploads {
		if aws.ToString(old.Key) != up.key {
			continue
		}
		_, err := up.client.AbortMultipartUpload(up.ctx, &s3.AbortMultipartUploadInput{Bucket: &up.bucket, Key: old.Key, UploadId: old.UploadId})
		if err != nil {
			return err
		}
	}
	out, err := up.client.CreateMultipartUpload(up.ctx, &s3.CreateMultipartUploadInput{
		Bucket: &up.bucket, Key: &up.key, ACL: up.acl, ServerSideEncryption: up.sse, SSEKMSKeyId: up.kmsKey,
	})
	if err != nil {
		return err
	}
	up.id = out.UploadId
	return nil
}

func (up *upload) finish(tags *string) error {
	if up.id == nil {
		_, err := up.client.PutObject(up.ctx, &s3.PutObjectInput{
			Bucket: &up.bucket, Key: &up.key, Body: bytes.NewReader(up.part.Bytes()), Tagging: tags,
			ACL: up.acl, ServerSideEncryption: up.sse, SSEKMSKeyId: up.kmsKey,
		})
		if err == nil {
			up.progress.Add(1)
		}
		return err
	}
	if up.part.Len() > 0 {
		if err := up.sendPart(); err != nil {
			return err
		}
	}
	_, err := up.client.CompleteMultipartUpload(up.ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &up.bucket, Key: &up.key, UploadId: up.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: up.parts},
	})
	if err != nil {
		return fmt.Errorf("complete %d parts: %w", len(up.parts), err)
	}
	up.progress.Add(1)
	return nil
}

// abort frees the parts of an upload that failed. If it can't, the next attempt does: see begin.
func (up *upload) abort() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(up.ctx), abortTimeout)
	defer cancel()
	_, _ = up.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &up.bucket, Key: &up.key, UploadId: up.id})
}
