package kafka

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
)

// oauth makes the OAUTHBEARER mechanism from a login module's options: an unsecured token
// (unsecuredLoginStringClaim_sub), or one fetched from sasl.oauthbearer.token.endpoint.url
// by client credentials (clientId, clientSecret, scope).
func (b *builder) oauth(entry jaasEntry) sasl.Mechanism {
	extensions := make(map[string]string)
	for name, v := range entry.options {
		if rest, ok := strings.CutPrefix(name, "extension_"); ok {
			extensions[rest] = v
		}
	}
	endpoint := b.get("sasl.oauthbearer.token.endpoint.url")
	if endpoint == "" {
		subject := entry.options["unsecuredLoginStringClaim_sub"]
		if subject == "" {
			b.fault("sasl.oauthbearer.token.endpoint.url", "is missing")
			return nil
		}
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			return oauth.Auth{Token: unsecuredToken(subject, time.Now()), Extensions: extensions}, nil
		})
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		b.fault("sasl.oauthbearer.token.endpoint.url", "is no http or https address")
		return nil
	}
	id := entry.options["clientId"]
	if id == "" {
		b.fault("sasl.jaas.config", "clientId is missing")
		return nil
	}
	tlsConfig := b.tls()
	if tlsConfig == nil {
		return nil
	}
	timeout := 20 * time.Second
	if d, ok := b.millis("sasl.login.read.timeout.ms", b.get("sasl.login.read.timeout.ms"), time.Millisecond, time.Hour); ok {
		timeout = d
	}
	fetch := &tokenSource{
		endpoint: endpoint, id: id, secret: entry.options["clientSecret"], scope: entry.options["scope"],
		client: &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}},
	}
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		token, err := fetch.token(ctx)
		return oauth.Auth{Token: token, Extensions: extensions}, err
	})
}

// unsecuredToken is a JWT without a signature, as Java's default handler makes for tests.
func unsecuredToken(subject string, now time.Time) string {
	claims, err := json.Marshal(map[string]any{"sub": subject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()})
	if err != nil { // strings and numbers always marshal
		return ""
	}
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"none"}`)) + "." + enc.EncodeToString(claims) + "."
}

// tokenSource fetches access tokens and keeps one until four fifths of its life are over.
type tokenSource struct {
	endpoint, id, secret, scope string
	client                      *http.Client

	mu    sync.Mutex
	held  string
	until time.Time
}

func (s *tokenSource) token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.held != "" && now.Before(s.until) {
		return s.held, nil
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if s.scope != "" {
		form.Set("scope", s.scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", fmt.Errorf("fetch token: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(s.id), url.QueryEscape(s.secret))
	resp, err := s.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("fetch token: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return "", fmt.Errorf("fetch token: %s answered %s", s.endpoint, resp.Status)
	}
	var answer struct {
		AccessToken string  `json:"access_token"`
		ExpiresIn   float64 `json:"expires_in"`
	}
	const maxAnswerBytes = 1 << 20
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswerBytes)).Decode(&answer); err != nil {
		return "", fmt.Errorf("fetch token: %w", err)
	}
	if answer.AccessToken == "" {
		return "", errors.New("fetch token: the answer holds no access_token")
	}
	life := min(max(answer.ExpiresIn, 0), 86400)
	s.held, s.until = answer.AccessToken, now.Add(time.Duration(life*0.8*float64(time.Second)))
	return s.held, nil
}
