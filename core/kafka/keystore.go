package kafka

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// maxStoreBytes bounds a key store's file.
const maxStoreBytes = 16 << 20

// store is what a key or trust store of any format holds.
type store struct {
	trusted []*x509.Certificate // certificates without a key
	key     crypto.PrivateKey   // nil if there is none
	chain   [][]byte            // DER, the key's own certificate first
}

// trust fills in the authorities that ssl.truststore.* names; without any, the system's
// are used, as in Java.
func (b *builder) trust(cfg *tls.Config) {
	const name = "ssl.truststore.location"
	var certs []*x509.Certificate
	if inline := b.get("ssl.truststore.certificates"); inline != "" {
		s, err := parsePEM([]byte(inline), "")
		if err != nil {
			b.fault("ssl.truststore.certificates", "%w", err)
			return
		}
		certs = s.certificates()
	} else if path := b.get(name); path != "" {
		s, err := loadStore(path, b.props["ssl.truststore.password"], "", true)
		if err != nil {
			b.fault(name, "%w", err)
			return
		}
		certs = s.certificates()
	} else if t := b.get("ssl.truststore.type"); strings.EqualFold(t, "PEM") {
		b.fault("ssl.truststore.type", "PEM needs ssl.truststore.location or ssl.truststore.certificates")
		return
	} else {
		return
	}
	if len(certs) == 0 {
		b.fault(name, "holds no certificate")
		return
	}
	cfg.RootCAs = x509.NewCertPool()
	for _, cert := range certs {
		cfg.RootCAs.AddCert(cert)
	}
}

// identity fills in the client's own certificate that ssl.keystore.* names, if any.
func (b *builder) identity(cfg *tls.Config) {
	var s store
	var err error
	name, keyPassword := "ssl.keystore.location", b.props["ssl.key.password"]
	if inline := b.get("ssl.keystore.key"); inline != "" {
		name = "ssl.keystore.key"
		s, err = parsePEM([]byte(inline+"\n"+b.get("ssl.keystore.certificate.chain")), keyPassword)
	} else if path := b.get(name); path != "" {
		s, err = loadStore(path, b.props["ssl.keystore.password"], keyPassword, false)
	} else {
		return
	}
	switch {
	case err != nil:
		b.fault(name, "%w", err)
	case s.key == nil:
		b.fault(name, "holds no private key")
	case len(s.chain) == 0:
		b.fault(name, "holds no certificate for its private key")
	default:
		cfg.Certificates = []tls.Certificate{{Certificate: s.chain, PrivateKey: s.key}}
	}
}

// certificates returns all certificates of the store, those of a key's chain too, as
// people use one file for both.
func (s store) certificates() []*x509.Certificate {
	certs := s.trusted
	for _, der := range s.chain {
		if cert, err := x509.ParseCertificate(der); err == nil {
			certs = append(certs, cert)
		}
	}
	return certs
}

// loadStore reads a store whose format shows in its bytes (Java's JKS type reads PKCS12
// files too, so the configured type says little).
func loadStore(path, password, keyPassword string, trust bool) (store, error) {
	info, err := os.Stat(path)
	if err != nil {
		return store{}, err
	}
	if info.Size() > maxStoreBytes {
		return store{}, fmt.Errorf("%s is larger than %d bytes", path, maxStoreBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return store{}, err
	}
	var s store
	switch {
	case bytes.HasPrefix(data, []byte{0xFE, 0xED, 0xFE, 0xED}):
		s, err = parseJKS(data, password, keyPassword)
	case bytes.Contains(data, []byte("-----BEGIN ")):
		s, err = parsePEM(data, keyPassword)
	default:
		s, err = parsePKCS12(data, password, trust)
	}
	if err != nil {
		return store{}, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

func parsePKCS12(data []byte, password string, trust bool) (store, error) {
	if trust {
		if certs, err := pkcs12.DecodeTrustStore(data, password); err == nil {
			return store{trusted: certs}, nil
		} else if errors.Is(err, pkcs12.ErrIncorrectPassword) {
			return store{}, err
		}
	}
	key, cert, authorities, err := pkcs12.DecodeChain(data, password)
	if err != nil {
		return store{}, err
	}
	s := store{key: key, chain: [][]byte{cert.Raw}}
	for _, ca := range authorities {
		s.chain = append(s.chain, ca.Raw)
	}
	return s, nil
}

// parsePEM reads certificates and at most one private key; with a key, the certificates
// are its chain.
func parsePEM(data []byte, keyPassword string) (store, error) {
	var s store
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			break
		}
		var err error
		switch block.Type {
		case "CERTIFICATE":
			var cert *x509.Certificate
			if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
				certs = append(certs, cert)
			}
		case "PRIVATE KEY":
			s.key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			s.key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			s.key, err = x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			s.key, err = decryptPKCS8(block.Bytes, keyPassword)
		}
		if err != nil {
			return store{}, fmt.Errorf("PEM block %s: %w", block.Type, err)
		}
	}
	if s.key == nil {
		s.trusted = certs
		return s, nil
	}
	for _, cert := range certs {
		s.chain = append(s.chain, cert.Raw)
	}
	return s, nil
}
