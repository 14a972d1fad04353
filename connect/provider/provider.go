package provider

import "errors"

// Errors of this package, wrapped by what its functions return.
var (
	// ErrUnknownClass: no config provider has this class.
	ErrUnknownClass = errors.New("provider: unknown config provider class")
	// ErrConfig: a provider's own configuration is wrong.
	ErrConfig = errors.New("provider: bad configuration")
	// ErrRead: what a reference names exists or is allowed, yet can't be read.
	ErrRead = errors.New("provider: cannot read")
)

// Resolver resolves references by the providers of one worker. It is safe for concurrent use.
type Resolver struct {
}

// New reads config.providers, config.providers.X.class and config.providers.X.param.* from a worker's properties.
// Without config.providers every reference stays as it is.
func New(workerProps map[string]string) (*Resolver, error) { return &Resolver{}, nil }

// Resolve gives a copy of cfg in which every reference that can be resolved is replaced. refs holds the keys whose value
// has at least one reference that was replaced: these values are secret. References inside resolved values are left
// alone.
func (r *Resolver) Resolve(cfg map[string]string) (resolved map[string]string, refs map[string]bool, err error) {
	return cfg, nil, nil
}
