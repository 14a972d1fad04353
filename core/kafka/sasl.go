package kafka

import (
	"strings"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// sasl makes the mechanism that sasl.mechanism and sasl.jaas.config name; nil after a fault.
func (b *builder) sasl() sasl.Mechanism {
	for _, name := range []string{"sasl.client.callback.handler.class", "sasl.login.callback.handler.class"} {
		if v := b.get(name); v != "" && !strings.Contains(v, ".oauthbearer.") {
			b.refused(name, "use sasl.jaas.config")
			return nil
		}
	}
	mechanism := strings.ToUpper(b.get("sasl.mechanism"))
	if mechanism == "" || mechanism == "GSSAPI" {
		b.refused("sasl.mechanism", "Kerberos (GSSAPI, Java's default) can't be used; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
		return nil
	}
	entry, err := parseJAAS(b.get("sasl.jaas.config"))
	if err != nil {
		b.fault("sasl.jaas.config", "%w", err)
		return nil
	}
	module := entry.class[strings.LastIndexByte(entry.class, '.')+1:]
	if want := moduleOf(mechanism); want == "" {
		b.refused("sasl.mechanism", mechanism+" can't be used; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER")
		return nil
	} else if module != want {
		b.refused("sasl.jaas.config", "login module "+module+" can't be used for "+mechanism+"; use "+want)
		return nil
	}
	if mechanism == "OAUTHBEARER" {
		return b.oauth(entry)
	}
	user, pass := entry.options["username"], entry.options["password"]
	if user == "" {
		b.fault("sasl.jaas.config", "username is missing")
		return nil
	}
	if mechanism == "PLAIN" {
		return plain.Auth{User: user, Pass: pass}.AsMechanism()
	}
	auth := scram.Auth{User: user, Pass: pass, IsToken: strings.EqualFold(entry.options["tokenauth"], "true")}
	if mechanism == "SCRAM-SHA-256" {
		return auth.AsSha256Mechanism()
	}
	return auth.AsSha512Mechanism()
}

func moduleOf(mechanism string) string {
	switch mechanism {
	case "PLAIN":
		return "PlainLoginModule"
	case "SCRAM-SHA-256", "SCRAM-SHA-512":
		return "ScramLoginModule"
	case "OAUTHBEARER":
		return "OAuthBearerLoginModule"
	}
	return ""
}
