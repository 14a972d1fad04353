package kafka

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// errKeyPassword covers a wrong password and damage alike: they can't be told apart.
var errKeyPassword = errors.New("the private key can't be decrypted: wrong ssl.key.password?")

// maxKeyIterations bounds the work that a key file can ask for.
const maxKeyIterations = 10_000_000

type algorithm struct {
	OID    asn1.ObjectIdentifier
	Params asn1.RawValue `asn1:"optional"`
}

type pbes2Params struct {
	Derivation algorithm
	Cipher     algorithm
}

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int       `asn1:"optional"`
	PRF        algorithm `asn1:"optional"`
}

// encryptedKey is PKCS#8's EncryptedPrivateKeyInfo.
type encryptedKey struct {
	Algorithm algorithm
	Data      []byte
}

// decryptPKCS8 reads an encrypted PKCS#8 key (PBES2 with PBKDF2 and AES or 3DES in CBC
// mode: what openssl and keytool write and Java's PEM stores read).
func decryptPKCS8(der []byte, password string) (crypto.PrivateKey, error) {
	var sealed encryptedKey
	var params pbes2Params
	var kdf pbkdf2Params
	var iv []byte
	if _, err := asn1.Unmarshal(der, &sealed); err != nil {
		return nil, err
	}
	if sealed.Algorithm.OID.String() != "1.2.840.113549.1.5.13" {
		return nil, fmt.Errorf("encryption %s can't be read; use PBES2", sealed.Algorithm.OID)
	}
	for _, part := range []struct {
		raw *asn1.RawValue
		to  any
	}{{&sealed.Algorithm.Params, &params}, {&params.Derivation.Params, &kdf}, {&params.Cipher.Params, &iv}} {
		if _, err := asn1.Unmarshal(part.raw.FullBytes, part.to); err != nil {
			return nil, err
		}
	}
	if kdf.Iterations < 1 || kdf.Iterations > maxKeyIterations {
		return nil, fmt.Errorf("%d iterations of key derivation are out of range", kdf.Iterations)
	}
	digest, err := prfOf(kdf.PRF.OID)
	if err != nil {
		return nil, err
	}
	keyLength, newCipher, err := cipherOf(params.Cipher.OID)
	if err != nil {
		return nil, err
	}
	key, err := pbkdf2.Key(digest, password, kdf.Salt, kdf.Iterations, keyLength)
	if err != nil {
		return nil, err
	}
	block, err := newCipher(key)
	if err != nil {
		return nil, err
	}
	plain, err := openCBC(block, iv, sealed.Data)
	if err != nil {
		return nil, err
	}
	private, err := x509.ParsePKCS8PrivateKey(plain)
	if err != nil {
		return nil, errKeyPassword
	}
	return private, nil
}

func openCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errKeyPassword
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > size {
		return nil, errKeyPassword
	}
	return plain[:len(plain)-padding], nil
}

func prfOf(oid asn1.ObjectIdentifier) (func() hash.Hash, error) {
	switch oid.String() {
	case "", "1.2.840.113549.2.7":
		return sha1.New, nil
	case "1.2.840.113549.2.9":
		return sha256.New, nil
	case "1.2.840.113549.2.10":
		return sha512.New384, nil
	case "1.2.840.113549.2.11":
		return sha512.New, nil
	}
	return nil, fmt.Errorf("key derivation with %s can't be read", oid)
}

func cipherOf(oid asn1.ObjectIdentifier) (keyLength int, open func([]byte) (cipher.Block, error), err error) {
	switch oid.String() {
	case "2.16.840.1.101.3.4.1.2":
		return 16, aes.NewCipher, nil
	case "2.16.840.1.101.3.4.1.22":
		return 24, aes.NewCipher, nil
	case "2.16.840.1.101.3.4.1.42":
		return 32, aes.NewCipher, nil
	case "1.2.840.113549.3.7":
		return 24, des.NewTripleDESCipher, nil
	}
	return 0, nil, fmt.Errorf("cipher %s can't be read; use AES", oid)
}
