package provider

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// newEnv makes the provider of environment variables; allowlist.pattern, which must match a whole name, limits them.
// The environment is read once, as in Java.
func newEnv(params map[string]string, prefix string) (lookup, error) {
	pattern, limited := params["allowlist.pattern"]
	var allowed *regexp.Regexp
	if limited {
		var err error
		if allowed, err = regexp.Compile(`\A(?:` + pattern + `)\z`); err != nil {
			return nil, fmt.Errorf("%w: %sparam.allowlist.pattern: %w", ErrConfig, prefix, err)
		}
	}
	values := map[string]string{}
	for _, entry := range os.Environ() {
		if name, value, ok := strings.Cut(entry, "="); ok && (allowed == nil || allowed.MatchString(name)) {
			values[name] = value
		}
	}
	return func(path string) (map[string]string, error) {
		if path != "" {
			return nil, fmt.Errorf("%w: environment variables have no path", ErrConfig)
		}
		return values, nil
	}, nil
}
