package kafka

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// builder collects options, warnings and faults of one call of Options.
type builder struct {
	props    map[string]string
	role     Role
	opts     []kgo.Opt
	warnings []Warning
	faults   []error
	backoff  bool // retry back-off already added
}

func (b *builder) add(opts ...kgo.Opt) { b.opts = append(b.opts, opts...) }

func (b *builder) warn(name, nearest, reason string) {
	b.warnings = append(b.warnings, Warning{Key: name, Nearest: nearest, Reason: reason})
}

func (b *builder) fault(name, format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf("%s: "+format, append([]any{name}, args...)...))
}

func (b *builder) refused(name, instead string) {
	b.faults = append(b.faults, fmt.Errorf("%s: %w: %s", name, ErrRefused, instead))
}

// get returns a property's value without surrounding blanks.
func (b *builder) get(name string) string { return strings.TrimSpace(b.props[name]) }

// refuse makes an apply function for a key that is refused whenever it has a value.
func refuse(instead string) func(*builder, string, string) {
	return func(b *builder, name, value string) {
		if value != "" {
			b.refused(name, instead)
		}
	}
}

// refuseTrue is refuse for a boolean that may be set to false.
func refuseTrue(instead string) func(*builder, string, string) {
	return func(b *builder, name, value string) {
		if on, ok := b.boolean(name, value, false); ok && on {
			b.refused(name, instead)
		}
	}
}

// integer parses value; ok is false if it is empty or (with a fault) out of range.
func (b *builder) integer(name, value string, least, most int64) (n int64, ok bool) {
	if value == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		b.fault(name, "%q is no whole number from %d to %d", value, least, most)
		return 0, false
	}
	return n, true
}

// millis parses a duration in milliseconds and clamps it to what kgo takes.
func (b *builder) millis(name, value string, least, most time.Duration) (time.Duration, bool) {
	n, ok := b.integer(name, value, -1, math.MaxInt64/int64(time.Millisecond))
	if !ok {
		return 0, false
	}
	if n < 0 {
		return most, true
	}
	d := min(max(time.Duration(n)*time.Millisecond, least), most)
	if d != time.Duration(n)*time.Millisecond {
		b.warn(name, "", fmt.Sprintf("is out of the client's range, %d ms is used", d.Milliseconds()))
	}
	return d, true
}

func (b *builder) boolean(name, value string, unset bool) (on, ok bool) {
	switch strings.ToLower(value) {
	case "":
		return unset, false
	case "true":
		return true, true
	case "false":
		return false, true
	}
	b.fault(name, "%q is neither true nor false", value)
	return unset, false
}

// finish adds what depends on several keys together.
func (b *builder) finish() {
	if b.get("bootstrap.servers") == "" {
		b.fault("bootstrap.servers", "is missing: name at least one HOST:PORT")
	}
	b.security()
	switch b.role {
	case Producer:
		b.finishProducer()
	case Consumer:
		b.finishGroup()
	}
}

func (b *builder) bootstrapServers(name, value string) {
	var seeds []string
	for _, server := range strings.Split(value, ",") {
		server = strings.TrimSpace(server)
		if server == "" {
			continue
		}
		// Java takes PROTOCOL://host:port too.
		if _, rest, found := strings.Cut(server, "://"); found {
			server = rest
		}
		host, port, err := net.SplitHostPort(server)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 || host == "" {
			b.fault(name, "%q is not HOST:PORT", server)
			continue
		}
		seeds = append(seeds, net.JoinHostPort(host, port))
	}
	if len(seeds) > 0 {
		b.add(kgo.SeedBrokers(seeds...))
	}
}

func (b *builder) clientID(_, value string) {
	if value != "" {
		b.add(kgo.ClientID(value))
	}
}

func (b *builder) connectionsMaxIdle(name, value string) {
	if d, ok := b.millis(name, value, 100*time.Millisecond, 15*time.Minute); ok {
		b.add(kgo.ConnIdleTimeout(d))
	}
}

func (b *builder) metadataMaxAge(name, value string) {
	d, ok := b.millis(name, value, 10*time.Millisecond, time.Hour)
	if !ok {
		return
	}
	b.add(kgo.MetadataMaxAge(d))
	if d < 5*time.Second { // kgo's least age must not exceed the greatest
		b.add(kgo.MetadataMinAge(d))
	}
}

func (b *builder) dialTimeout(name, value string) {
	if d, ok := b.millis(name, value, time.Millisecond, time.Hour); ok {
		b.add(kgo.DialTimeout(d))
	}
}

func (b *builder) requestTimeout(name, value string) {
	d, ok := b.millis(name, value, 100*time.Millisecond, 15*time.Minute)
	if !ok {
		return
	}
	b.add(kgo.RequestTimeoutOverhead(d))
	if b.role == Producer {
		b.add(kgo.ProduceRequestTimeout(d))
	}
}

func (b *builder) metricsPush(name, value string) {
	if on, ok := b.boolean(name, value, true); ok && !on {
		b.add(kgo.DisableClientMetrics())
	}
}

func (b *builder) retries(name, value string) {
	n, ok := b.integer(name, value, 0, math.MaxInt32)
	if !ok {
		return
	}
	if b.role == Producer {
		b.add(kgo.RecordRetries(int(n)))
		return
	}
	b.add(kgo.RequestRetries(int(n)))
}

// retryBackoff doubles from retry.backoff.ms to retry.backoff.max.ms with 20 % jitter,
// as Java's clients do.
func (b *builder) retryBackoff(string, string) {
	if b.backoff {
		return
	}
	b.backoff = true
	least, most := 100*time.Millisecond, time.Second
	if d, ok := b.millis("retry.backoff.ms", b.get("retry.backoff.ms"), 0, time.Hour); ok {
		least = d
	}
	if d, ok := b.millis("retry.backoff.max.ms", b.get("retry.backoff.max.ms"), 0, time.Hour); ok {
		most = d
	}
	most = max(least, most)
	b.add(kgo.RetryBackoffFn(func(fails int) time.Duration {
		d := most
		if shift := max(fails-1, 0); shift < 30 && least<<shift < most && least<<shift >= least {
			d = least << shift
		}
		return min(most, time.Duration(float64(d)*(0.8+0.4*rand.Float64())))
	}))
}
