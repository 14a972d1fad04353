package kafka

import (
	"bytes"
	"crypto"
	"crypto/sha1"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

var (
	errJKS         = errors.New("damaged JKS store")
	errJKSPassword = errors.New("wrong password or damaged JKS store")
)

// parseJKS reads Java's own store format:
//
//	magic FEEDFEED | version u32 (1, 2) | entries u32
//	entry:  tag u32 | alias utf | created ms i64 |
//	        1 = key:  length u32 | EncryptedPrivateKeyInfo | certs u32 | cert …
//	        2 = cert: cert
//	cert:   type utf (version 2) | length u32 | DER
//	SHA-1(password in UTF-16BE | "Mighty Aphrodite" | all before)
//
// Of several keys the first counts. An empty password skips the check of the digest, as
// in Java; a key needs one (keyPassword, else password).
func parseJKS(data []byte, password, keyPassword string) (store, error) {
	if len(data) < 12+sha1.Size {
		return store{}, errJKS
	}
	body, digest := data[:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	if password != "" {
		h := sha1.New()
		h.Write(javaPassword(password))
		h.Write([]byte("Mighty Aphrodite"))
		h.Write(body)
		if subtle.ConstantTimeCompare(h.Sum(nil), digest) != 1 {
			return store{}, errJKSPassword
		}
	}
	if keyPassword == "" {
		keyPassword = password
	}
	r := &jksReader{rest: body[4:]}
	version, entries := r.u32(), r.u32()
	if version != 1 && version != 2 {
		return store{}, fmt.Errorf("%w: version %d", errJKS, version)
	}
	var s store
	for ; entries > 0 && r.err == nil; entries-- {
		tag := r.u32()
		r.take(int(r.u16()))
		r.take(8)
		switch {
		case r.err != nil:
		case tag == 1:
			if err := s.addJKSKey(r, version, keyPassword); err != nil {
				return store{}, err
			}
		case tag == 2:
			if der := r.certificate(version); r.err == nil {
				cert, err := x509.ParseCertificate(der)
				if err != nil {
					return store{}, err
				}
				s.trusted = append(s.trusted, cert)
			}
		default:
			return store{}, fmt.Errorf("%w: entry of kind %d", errJKS, tag)
		}
	}
	return s, r.err
}

func (s *store) addJKSKey(r *jksReader, version uint32, password string) error {
	sealed := r.take(int(r.u32()))
	var chain [][]byte
	for n := r.u32(); n > 0 && r.err == nil; n-- {
		chain = append(chain, r.certificate(version))
	}
	if r.err != nil || s.key != nil {
		return r.err
	}
	key, err := openJKSKey(sealed, password)
	if err != nil {
		return err
	}
	s.key, s.chain = key, chain
	return nil
}

// openJKSKey undoes Java's key protector: salt(20) | PKCS#8 xor SHA-1 stream | check(20).
func openJKSKey(der []byte, password string) (crypto.PrivateKey, error) {
	var sealed encryptedKey
	if _, err := asn1.Unmarshal(der, &sealed); err != nil {
		return nil, fmt.Errorf("%w: %w", errJKS, err)
	}
	if sealed.Algorithm.OID.String() != "1.3.6.1.4.1.42.2.17.1.1" || len(sealed.Data) < 2*sha1.Size {
		return nil, fmt.Errorf("%w: key protected by %s", errJKS, sealed.Algorithm.OID)
	}
	secret := javaPassword(password)
	link := sealed.Data[:sha1.Size]
	check := sealed.Data[len(sealed.Data)-sha1.Size:]
	plain := bytes.Clone(sealed.Data[sha1.Size : len(sealed.Data)-sha1.Size])
	for i := range plain {
		if i%sha1.Size == 0 {
			sum := sha1.Sum(append(bytes.Clone(secret), link...))
			link = sum[:]
		}
		plain[i] ^= link[i%sha1.Size]
	}
	sum := sha1.Sum(append(bytes.Clone(secret), plain...))
	if subtle.ConstantTimeCompare(sum[:], check) != 1 {
		return nil, errKeyPassword
	}
	return x509.ParsePKCS8PrivateKey(plain)
}

// javaPassword is a password as Java's stores hash it: UTF-16, big endian.
func javaPassword(password string) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune(password)) {
		out = binary.BigEndian.AppendUint16(out, unit)
	}
	return out
}

// jksReader walks a store's bytes; after the first fault everything is empty.
type jksReader struct {
	rest []byte
	err  error
}

func (r *jksReader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.rest) {
		r.err = errJKS
		return nil
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *jksReader) u16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *jksReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *jksReader) certificate(version uint32) []byte {
	if version == 2 {
		r.take(int(r.u16()))
	}
	return r.take(int(r.u32()))
}
