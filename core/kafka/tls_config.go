package kafka

import (
	"crypto/tls"
	"errors"
)

// TLS makes TLS settings of Java's ssl.* properties (key and trust stores in PEM, PKCS12 or JKS, versions, ciphers, the
// check of the host name), for connections to anything that is configured so. All faults come as one error.
func TLS(props map[string]string) (*tls.Config, error) {
	b := &builder{props: props}
	cfg := b.tls()
	return cfg, errors.Join(b.faults...)
}
