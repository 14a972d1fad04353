package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/weirlog/weir/connect"
)

// Connector gives the S3 sink.
func Connector() connect.Connector {
	return connect.Connector{
		Name:     "s3",
		Aliases:  []string{"io.confluent.connect.s3.S3SinkConnector", "S3SinkConnector", "S3Sink"},
		Version:  "1.0.0",
		Doc:      "Writes records as objects of an S3 bucket, each in exactly one",
		Fields:   fields(),
		Lazy:     true,
		Validate: validate,
		Check:    check,
		Sink:     open,
	}
}

// validate checks what goes across keys.
func validate(_ context.Context, c connect.Config) []connect.FieldResult {
	s, results := connect.ParseConfig(fields(), c)
	var out []connect.FieldResult
	fault := func(key, text string) {
		for _, r := range results {
			if r.Name == key {
				r.Errors = append(r.Errors, text)
				out = append(out, r)
				return
			}
		}
	}
	if (s.String("aws.access.key.id") == "") != (s.String("aws.secret.access.key") == "") {
		fault("aws.secret.access.key", "aws.access.key.id and aws.secret.access.key are given together or not at all")
	}
	if s.Int("rotate.schedule.interval.ms") > 0 {
		if s.String("timezone") == "" {
			fault("timezone", "rotate.schedule.interval.ms needs a timezone, such as UTC")
		} else if _, err := time.LoadLocation(s.String("timezone")); err != nil {
			fault("timezone", fmt.Sprintf("Invalid value %s for configuration timezone: %v", s.String("timezone"), err))
		}
	}
	var bad *connect.Error
	if _, err := newPartitioner(s); errors.As(err, &bad) {
		fault(bad.Field, bad.Err.Error())
	}
	isBytes := isClass(s.String("format.class"), bytesFormat)
	if s.Bool("json.envelope") && isBytes {
		fault("json.envelope", "json.envelope needs format.class=JsonFormat")
	}
	if s.String("behavior.on.null.values") == "write" && !s.Bool("json.envelope") && !s.Bool("store.kafka.keys") {
		fault("behavior.on.null.values", "write needs json.envelope=true or store.kafka.keys=true: a tombstone has nothing but its key")
	}
	for _, what := range []string{"keys", "headers"} {
		if key := what + ".format.class"; s.Bool("store.kafka."+what) && !isClass(s.String(key), jsonFormat) {
			fault(key, "only "+jsonFormat+" can be written: set "+key)
		}
	}
	return out
}

// isClass tells whether a value is a Java class or its simple name.
func isClass(value, class string) bool {
	return strings.EqualFold(value, class) || strings.EqualFold(value, class[strings.LastIndexByte(class, '.')+1:])
}

func parse(ctx context.Context, c connect.Config) (*connect.Settings, error) {
	s, results := connect.ParseConfig(fields(), c)
	if err := connect.FirstError(results); err != nil {
		return nil, err
	}
	return s, connect.FirstError(validate(ctx, c))
}

// check looks whether the bucket is there and may be read.
func check(ctx context.Context, in connect.Instance) ([]connect.Finding, error) {
	s, err := parse(ctx, in.Config)
	if err != nil {
		return nil, err
	}
	client, connections, err := connectTo(ctx, s)
	if err != nil {
		return nil, err
	}
	defer connections.CloseIdleConnections()
	err = probe(ctx, client, s)
	var e *connect.Error
	if errors.As(err, &e) && e.Kind == connect.KindBadConfig {
		return []connect.Finding{{Fault: err.Error(), Mend: mend(e.Field, s.String("s3.bucket.name")), Fatal: true}}, nil
	}
	return nil, err
}

func mend(field, bucket string) string {
	if field == "s3.bucket.name" {
		return "aws s3api create-bucket --bucket " + bucket
	}
	return ""
}

// probe asks for one key below topics.dir: it tells apart a missing bucket, wrong credentials and a dead store. Not being
// allowed to list is no fault, as long as objects may be put.
func probe(ctx context.Context, client *s3.Client, s *connect.Settings) error {
	bucket := s.String("s3.bucket.name")
	_, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: aws.String(s.String("topics.dir")), MaxKeys: aws.Int32(1)})
	err = classify(ctx, bucket, "look at bucket "+bucket, err)
	var e *connect.Error
	if errors.As(err, &e) && e.Field == "aws.access.key.id" {
		return nil
	}
	return err
}

// connectTo makes a client. It speaks the old dialect of stores that know no checksum trailers.
func connectTo(ctx context.Context, s *connect.Settings) (*s3.Client, *http.Transport, error) {
	base := awshttp.NewBuildableClient()
	options := []func(*config.LoadOptions) error{
		config.WithRegion(s.String("s3.region")),
		config.WithHTTPClient(base),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
		config.WithRetryer(func() aws.Retryer { return retryer(int(s.Int("s3.part.retries")), s.Millis("s3.retry.backoff.ms")) }),
	}
	if id := s.String("aws.access.key.id"); id != "" {
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(id, s.String("aws.secret.access.key"), "")))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("load AWS settings: %w", err)
	}
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, nil, connect.BadConfig("aws.access.key.id", fmt.Errorf("no credentials: give aws.access.key.id and aws.secret.access.key, or an environment that has them (%w)", err))
	}
	if b, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
		base = b // with the authorities of AWS_CA_BUNDLE
	}
	connections := base.GetTransport()
	connections.ResponseHeaderTimeout = 30 * time.Second
	cfg.HTTPClient = &http.Client{Transport: connections, Timeout: 5 * time.Minute} // one whose idle connections can be closed
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = s.Bool("s3.path.style.access.enabled")
		if url := s.String("store.url"); url != "" {
			o.BaseEndpoint = &url
		}
	})
	return client, connections, nil
}

func retryer(retries int, backoff time.Duration) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = retries + 1
		o.RateLimiter = ratelimit.None
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return min(backoff<<min(attempt, 16), 10*time.Second), nil
		})
	})
}
