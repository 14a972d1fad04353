package provider

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Errors of this package, wrapped by what its functions return.
var (
	// ErrUnknownClass: no config provider has this class.
	ErrUnknownClass = errors.New("provider: unknown config provider class")
	// ErrConfig: a provider's own configuration is wrong.
	ErrConfig = errors.New("provider: bad configuration")
	// ErrRead: what a reference names exists and is allowed, yet can't be read.
	ErrRead = errors.New("provider: cannot read")
)

// Resolver resolves references by the providers of one worker. It is immutable and safe for concurrent use.
type Resolver struct {
	lookups map[string]lookup // by the name in config.providers
}

// lookup reads a path ("" for none), which gives every value there by its key. What does not exist or is not allowed
// gives no values and no error.
type lookup func(path string) (map[string]string, error)

// New reads config.providers, config.providers.X.class and config.providers.X.param.* from a worker's properties.
// Without config.providers every reference stays as it is.
func New(workerProps map[string]string) (*Resolver, error) {
	r := &Resolver{lookups: map[string]lookup{}}
	var faults []error
	for name := range strings.SplitSeq(workerProps["config.providers"], ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		l, err := open(workerProps, "config.providers."+name+".")
		if err != nil {
			faults = append(faults, err)
			continue
		}
		r.lookups[name] = l
	}
	return r, errors.Join(faults...)
}

func open(props map[string]string, prefix string) (lookup, error) {
	class := strings.TrimSpace(props[prefix+"class"])
	params := map[string]string{}
	for k, v := range props {
		if key, ok := strings.CutPrefix(k, prefix+"param."); ok {
			params[key] = v
		}
	}
	switch strings.TrimPrefix(class, "org.apache.kafka.common.config.provider.") {
	case "":
		return nil, fmt.Errorf("%w: %sclass is missing", ErrConfig, prefix)
	case "EnvVarConfigProvider", "env":
		return newEnv(params, prefix)
	case "FileConfigProvider", "file":
		return newFiles(params).properties, nil
	case "DirectoryConfigProvider", "directory":
		return newFiles(params).directory, nil
	}
	return nil, fmt.Errorf("%w %q in %sclass; known are env, file, directory", ErrUnknownClass, class, prefix)
}

// Names lists the providers, sorted.
func (r *Resolver) Names() []string { return slices.Sorted(maps.Keys(r.lookups)) }

// Resolve gives a copy of cfg in which every reference that can be resolved is replaced. refs holds the keys whose value
// has at least one reference that was replaced: these values are secret. References inside resolved values are left
// alone. An error names the reference, never a value; the first one ends the work.
func (r *Resolver) Resolve(cfg map[string]string) (resolved map[string]string, refs map[string]bool, err error) {
	resolved, refs = make(map[string]string, len(cfg)), map[string]bool{}
	read := map[[2]string]map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(cfg)) {
		value, replaced, err := r.expand(cfg[key], read)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", key, err)
		}
		resolved[key] = value
		if replaced {
			refs[key] = true
		}
	}
	return resolved, refs, nil
}

// expand replaces the references of one text; read keeps what was read already, by provider and path.
func (r *Resolver) expand(text string, read map[[2]string]map[string]string) (string, bool, error) {
	var out strings.Builder
	replaced := false
	for {
		start := strings.Index(text, "${")
		if start < 0 {
			break
		}
		end := strings.IndexByte(text[start:], '}')
		if end < 0 {
			break
		}
		end += start
		name, rest, isReference := strings.Cut(text[start+2:end], ":")
		l := r.lookups[name]
		if !isReference || l == nil {
			// Without a colon it is no reference, and one may begin within it. An unknown provider's stays whole.
			next := start + 2
			if isReference {
				next = end + 1
			}
			out.WriteString(text[:next])
			text = text[next:]
			continue
		}
		path, key, hasPath := strings.Cut(rest, ":")
		if !hasPath {
			path, key = "", rest
		}
		id := [2]string{name, path}
		values, ok := read[id]
		if !ok {
			var err error
			if values, err = l(path); err != nil {
				return "", false, fmt.Errorf("%s: %w", text[start:end+1], err)
			}
			read[id] = values
		}
		out.WriteString(text[:start])
		if v, ok := values[key]; ok {
			out.WriteString(v)
			replaced = true
		} else {
			out.WriteString(text[start : end+1])
		}
		text = text[end+1:]
	}
	out.WriteString(text)
	return out.String(), replaced, nil
}
