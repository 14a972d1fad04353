package kafka

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

func (b *builder) securityProtocol(name, value string) {
	switch strings.ToUpper(value) {
	case "", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL":
	default:
		b.fault(name, "%q is none of PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL", value)
	}
}

// security adds TLS and SASL as security.protocol says.
func (b *builder) security() {
	protocol := strings.ToUpper(b.get("security.protocol"))
	if protocol == "SSL" || protocol == "SASL_SSL" {
		if cfg := b.tls(); cfg != nil {
			b.add(kgo.DialTLSConfig(cfg))
		}
	}
	if strings.HasPrefix(protocol, "SASL_") {
		if mechanism := b.sasl(); mechanism != nil {
			b.add(kgo.SASL(mechanism))
		}
	}
}
