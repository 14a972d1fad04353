package kafka

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
)

func file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTLS shakes hands with each kind of store that Java's and OpenSSL's tools write. The
// server asks for the client's certificate and trusts only ours.
func TestTLS(t *testing.T) {
	trust := map[string]map[string]string{
		"jks":       {"ssl.truststore.location": "testdata/trust.jks", "ssl.truststore.password": "storepw", "ssl.truststore.type": "JKS"},
		"jks open":  {"ssl.truststore.location": "testdata/trust.jks"},
		"p12":       {"ssl.truststore.location": "testdata/trust.p12", "ssl.truststore.password": "storepw"},
		"pem file":  {"ssl.truststore.location": "testdata/cert.pem", "ssl.truststore.type": "PEM"},
		"pem value": {"ssl.truststore.certificates": file(t, "cert.pem"), "ssl.truststore.type": "PEM"},
		"key store": {"ssl.truststore.location": "testdata/key.p12", "ssl.truststore.password": "storepw"},
	}
	identity := map[string]map[string]string{
		"jks":          {"ssl.keystore.location": "testdata/key.jks", "ssl.keystore.password": "storepw", "ssl.key.password": "keypass"},
		"p12":          {"ssl.keystore.location": "testdata/key.p12", "ssl.keystore.password": "storepw"},
		"old p12":      {"ssl.keystore.location": "testdata/legacy.p12", "ssl.keystore.password": "storepw"},
		"pem value":    {"ssl.keystore.key": file(t, "key.pem"), "ssl.keystore.certificate.chain": file(t, "cert.pem")},
		"sealed value": {"ssl.keystore.key": file(t, "sealed.pem"), "ssl.keystore.certificate.chain": file(t, "cert.pem"), "ssl.key.password": "keypass"},
	}
	for tn, tp := range trust {
		for in, ip := range identity {
			props := map[string]string{"security.protocol": "SSL", "bootstrap.servers": "localhost:9092"}
			for _, m := range []map[string]string{tp, ip} {
				for k, v := range m {
					props[k] = v
				}
			}
			if err := handshake(t, props, "localhost"); err != nil {
				t.Errorf("trust %s, identity %s: %v", tn, in, err)
			}
		}
	}
	base := map[string]string{"security.protocol": "SSL", "bootstrap.servers": "localhost:9092"}
	with := func(props map[string]string) map[string]string {
		out := map[string]string{}
		for _, m := range []map[string]string{base, identity["p12"], trust["p12"], props} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	if err := handshake(t, with(nil), "elsewhere"); err == nil {
		t.Error("a wrong host name was taken")
	}
	if err := handshake(t, with(map[string]string{"ssl.endpoint.identification.algorithm": ""}), "elsewhere"); err != nil {
		t.Errorf("host name check is off: %v", err)
	}
	untrusted := with(map[string]string{"ssl.endpoint.identification.algorithm": ""})
	delete(untrusted, "ssl.truststore.location")
	if err := handshake(t, untrusted, "localhost"); err == nil {
		t.Error("an unknown authority was taken when only the host name's check is off")
	}
	if err := handshake(t, with(map[string]string{"ssl.enabled.protocols": "TLSv1.2"}), "localhost"); err != nil {
		t.Error(err)
	}
	anonymous := with(nil)
	delete(anonymous, "ssl.keystore.location")
	if err := handshake(t, anonymous, "localhost"); err == nil {
		t.Error("the server took a client without certificate: this test shows nothing")
	}
}

// handshake connects with the settings that props give to a server with our key.
func handshake(t *testing.T, props map[string]string, name string) error {
	t.Helper()
	b := &builder{props: props}
	cfg := b.tls()
	if cfg == nil {
		return errors.Join(b.faults...)
	}
	s, err := parsePEM([]byte(file(t, "key.pem")+file(t, "cert.pem")), "")
	if err != nil {
		t.Fatal(err)
	}
	authorities := (&builder{props: map[string]string{"ssl.truststore.location": "testdata/cert.pem"}}).tls().RootCAs
	serverConfig := &tls.Config{Certificates: []tls.Certificate{{Certificate: s.chain, PrivateKey: s.key}},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authorities}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			defer conn.Close()
			_, err = tls.Server(conn, serverConfig).Read(make([]byte, 1))
		}
		done <- err
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cfg = cfg.Clone()
	cfg.ServerName = name
	client := tls.Client(conn, cfg)
	if _, err = client.Write([]byte("x")); err != nil {
		conn.Close()
		return errors.Join(err, <-done)
	}
	return <-done
}

func TestStoreFaults(t *testing.T) {
	for name, c := range map[string]struct {
		props map[string]string
		want  string
	}{
		"wrong store password": {map[string]string{"ssl.truststore.location": "testdata/trust.jks", "ssl.truststore.password": "s3cret!"}, "ssl.truststore.location"},
		"wrong p12 password":   {map[string]string{"ssl.truststore.location": "testdata/trust.p12", "ssl.truststore.password": "s3cret!"}, "ssl.truststore.location"},
		"wrong key password":   {map[string]string{"ssl.keystore.location": "testdata/key.jks", "ssl.keystore.password": "storepw", "ssl.key.password": "s3cret!"}, "ssl.key.password"},
		"wrong pem password":   {map[string]string{"ssl.keystore.key": file(t, "sealed.pem"), "ssl.key.password": "s3cret!"}, "ssl.key.password"},
		"missing file":         {map[string]string{"ssl.truststore.location": "testdata/none.jks"}, "none.jks"},
		"no key":               {map[string]string{"ssl.keystore.location": "testdata/trust.jks", "ssl.keystore.password": "storepw"}, "holds no private key"},
		"no certificate":       {map[string]string{"ssl.keystore.key": file(t, "key.pem")}, "no certificate"},
		"empty trust":          {map[string]string{"ssl.truststore.certificates": "nothing"}, "holds no certificate"},
		"bad protocol":         {map[string]string{"ssl.enabled.protocols": "TLSv9"}, "TLSv9"},
		"old protocols only":   {map[string]string{"ssl.enabled.protocols": "TLSv1"}, "neither TLSv1.2 nor TLSv1.3"},
		"engine factory":       {map[string]string{"ssl.engine.factory.class": "x.Y"}, "ssl.engine.factory.class"},
	} {
		c.props["security.protocol"], c.props["bootstrap.servers"] = "SSL", "h:1"
		opts, _, err := Options(c.props, Admin)
		switch {
		case err == nil || opts != nil:
			t.Errorf("%s: no error", name)
		case !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %q doesn't name %s", name, err, c.want)
		case strings.Contains(err.Error(), "s3cret!"):
			t.Errorf("%s: the error tells a password: %v", name, err)
		}
	}
}

func FuzzStores(f *testing.F) {
	for _, name := range []string{"key.jks", "trust.jks", "key.pem", "sealed.pem"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		if block, _ := pem.Decode(data); block != nil {
			f.Add(block.Bytes)
		}
	}
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = parseJKS(data, "", "keypass")
		_, _ = openJKSKey(data, "keypass")
		_, _ = parsePEM(data, "")
	})
}
