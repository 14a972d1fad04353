package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/weirlog/weir/connect"
)

// classify tells what the worker can do about an error of the store: wait where the store is away or busy, stop where a
// setting is wrong and say which. The client has retried already.
func classify(ctx context.Context, bucket, what string, err error) error {
	var local *fs.PathError
	if err == nil || ctx.Err() != nil || errors.As(err, &local) {
		return err // a fault of the scratch folder is not the store's
	}
	err = fmt.Errorf("%s: %w", what, err)
	var api smithy.APIError
	code := ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	switch code {
	case "NoSuchBucket":
		return connect.BadConfig("s3.bucket.name", fmt.Errorf("there is no bucket %q: create it or name another (%w)", bucket, err))
	case "AccessDenied", "AllAccessDisabled", "AccountProblem":
		return connect.BadConfig("aws.access.key.id", fmt.Errorf("the credentials may not do this: grant s3:PutObject, s3:AbortMultipartUpload, "+
			"s3:ListBucket and s3:ListBucketMultipartUploads on bucket %q (%w)", bucket, err))
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "TokenRefreshRequired", "XAdminUserNotFound":
		return connect.BadConfig("aws.secret.access.key", fmt.Errorf("the store refuses the credentials: check key id and secret (%w)", err))
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return connect.BadConfig("s3.region", fmt.Errorf("bucket %q is in another region (%w)", bucket, err))
	case "SlowDown", "RequestTimeout", "RequestTimeTooSkewed", "OperationAborted", "InternalError", "ServiceUnavailable",
		"Throttling", "ThrottlingException", "RequestLimitExceeded", "NoSuchUpload", "BadDigest":
		return connect.Retry(0, err)
	}
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		switch status := response.HTTPStatusCode(); {
		case status >= 500, status == 429, status == 408:
			return connect.Retry(0, err)
		case status >= 300:
			return err
		}
	}
	return connect.Retry(0, err) // no answer at all: refused, cut off, timed out, no such host
}
