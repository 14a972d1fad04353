package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
)

// tls makes the client's TLS settings from ssl.*; nil after a fault.
func (b *builder) tls() *tls.Config {
	before := len(b.faults)
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	b.tlsVersions(cfg)
	b.tlsCiphers(cfg)
	b.trust(cfg)
	b.identity(cfg)
	// Java: "" switches the check of the host name off; the chain is still checked.
	if v, set := b.props["ssl.endpoint.identification.algorithm"]; set && strings.TrimSpace(v) == "" {
		cfg.InsecureSkipVerify = true // the chain is verified below, the name is not
		roots := cfg.RootCAs
		cfg.VerifyConnection = func(state tls.ConnectionState) error { return verifyChain(state, roots) }
	} else if set && !strings.EqualFold(strings.TrimSpace(v), "https") {
		b.fault("ssl.endpoint.identification.algorithm", "is neither https nor empty")
	}
	if len(b.faults) > before {
		return nil
	}
	return cfg
}

func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
	for _, cert := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(cert)
	}
	_, err := state.PeerCertificates[0].Verify(opts)
	return err
}

func (b *builder) tlsVersions(cfg *tls.Config) {
	list := b.get("ssl.enabled.protocols")
	if list == "" {
		return
	}
	cfg.MinVersion, cfg.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
	usable := false
	for _, v := range strings.Split(list, ",") {
		switch strings.TrimSpace(v) {
		case "TLSv1.2":
			cfg.MinVersion, usable = tls.VersionTLS12, true
		case "TLSv1.3":
			cfg.MaxVersion, usable = tls.VersionTLS13, true
		case "", "TLSv1", "TLSv1.1", "SSLv3":
			b.warn("ssl.enabled.protocols", "", "names versions before TLSv1.2, which are not used")
		default:
			b.fault("ssl.enabled.protocols", "%q is no version of TLS", v)
			return
		}
	}
	if !usable {
		b.fault("ssl.enabled.protocols", "names neither TLSv1.2 nor TLSv1.3")
	}
}

func (b *builder) tlsCiphers(cfg *tls.Config) {
	list := b.get("ssl.cipher.suites")
	if list == "" {
		return
	}
	byName := make(map[string]uint16)
	for _, suite := range tls.CipherSuites() {
		byName[suite.Name] = suite.ID
	}
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		if id, ok := byName[name]; ok {
			cfg.CipherSuites = append(cfg.CipherSuites, id)
		} else if name != "" {
			b.warn("ssl.cipher.suites", "", name+" is not offered")
		}
	}
	if len(cfg.CipherSuites) == 0 {
		b.fault("ssl.cipher.suites", "names no suite that can be offered")
	}
}
