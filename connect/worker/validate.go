package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connect/convert"
	"github.com/weirlog/weir/connect/transform"
	"github.com/weirlog/weir/core/kafka"
)

// Validate checks a connector configuration; faults are in the answer, the error is for a request that can't be
// answered. A value ${inline:key} stands for the stored one of the connector that the configuration names.
func (w *Worker) Validate(ctx context.Context, class string, config map[string]string) (Validation, error) {
	if err := w.started(); err != nil {
		return Validation{}, err
	}
	given := config["connector.class"]
	if given == "" {
		return Validation{}, badRequest("Connector config %s contains no connector type", javaMap(w.masked(config, config)))
	}
	if c := w.connector(class); c == nil || w.connector(given) != c {
		if class != given {
			return Validation{}, badRequest("Included connector type %s does not match request type %s", given, class)
		}
	}
	stored, _ := w.lookup(config["name"])
	full, err := unmasked(config, stored.config)
	if err != nil {
		return Validation{}, err
	}
	v, err := w.validate(ctx, full)
	if err != nil || v.ErrorCount > 0 {
		return v, err
	}
	return w.look(ctx, v, full)
}

// lookLimit bounds how long a connector may look at its foreign system for a validation.
const lookLimit = 20 * time.Second

// look adds to a validation without errors what the connector finds in the live system: each fatal fault, with the
// statement that mends it, as an error of its key. Creating a connector does not look: its system may come up later.
func (w *Worker) look(ctx context.Context, v Validation, raw map[string]string) (Validation, error) {
	c := w.connector(raw["connector.class"])
	if c.Check == nil {
		return v, nil
	}
	config, refs, err := w.resolver.Resolve(raw)
	if err != nil {
		return Validation{}, badRequest("%v", err)
	}
	p := &prepared{name: raw["name"], connector: c, raw: raw, config: config, refs: refs}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	var findings []connect.Finding
	err = guard(func() (err error) {
		findings, err = c.Check(ctx, connect.Instance{Name: p.name, Config: connect.Config(config), Log: w.log.With("connector", p.name)})
		return err
	})()
	if err != nil {
		f := connect.Finding{Fault: err.Error(), Fatal: true}
		if bad := (*connect.Error)(nil); errors.As(err, &bad) && bad.Field != "" {
			f.Field, f.Fault = bad.Field, bad.Err.Error()
		}
		findings = append(findings, f)
	}
	for _, f := range findings {
		if !f.Fatal {
			continue
		}
		msg := mended(f)
		for key := range config { // a driver's words may hold any of them
			msg = p.scrub(key, msg)
		}
		v.fault(cmp.Or(f.Field, "connector.class"), msg)
	}
	return v, nil
}

// mended is a finding with its remedy.
func mended(f connect.Finding) string {
	if f.Mend == "" {
		return f.Fault
	}
	return f.Fault + "; mend it with: " + f.Mend
}

// fault adds an error to a key of a rendered validation.
func (v *Validation) fault(key, msg string) {
	v.ErrorCount++
	for i := range v.Configs {
		if v.Configs[i].Value.Name == key {
			v.Configs[i].Value.Errors = append(v.Configs[i].Value.Errors, msg)
			return
		}
	}
	v.Configs = append(v.Configs, ConfigInfo{Value: Value{Name: key, Recommended: []string{}, Errors: []string{msg}, Visible: true}})
}

// javaMap prints a map as Java does, its keys in order.
func javaMap(m map[string]string) string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return "{" + strings.Join(out, ", ") + "}"
}

// validation gathers fields and results by key, in the order in which the fields came.
type validation struct {
	fields  []connect.Field
	results map[string]*connect.FieldResult
	known   map[string]bool
}

func (v *validation) add(fields []connect.Field, results []connect.FieldResult) {
	for _, f := range fields {
		if !v.known[f.Name] {
			v.known[f.Name] = true
			v.fields = append(v.fields, f)
		}
	}
	for _, r := range results {
		v.merge(r)
	}
}

// merge adds a result: errors are gathered, the rest is the newer one's where it says something.
func (v *validation) merge(r connect.FieldResult) {
	old := v.results[r.Name]
	if old == nil {
		c := r
		v.results[r.Name] = &c
		return
	}
	for _, e := range r.Errors {
		if !slices.Contains(old.Errors, e) {
			old.Errors = append(old.Errors, e)
		}
	}
	if r.Value != nil {
		old.Value = r.Value
	}
	if len(r.Recommended) > 0 {
		old.Recommended = r.Recommended
	}
	old.Visible = old.Visible && r.Visible
}

func (v *validation) fault(key string, err error) {
	v.merge(connect.FieldResult{Name: key, Errors: []string{err.Error()}, Visible: true})
}

// validate checks a configuration whose inline texts are resolved.
func (w *Worker) validate(ctx context.Context, raw map[string]string) (Validation, error) {
	class := raw["connector.class"]
	c := w.connector(class)
	if c == nil {
		return Validation{}, &Error{500, w.unknownClass(class)}
	}
	config, refs, err := w.resolver.Resolve(raw)
	if err != nil {
		return Validation{}, badRequest("%v", err)
	}
	p := &prepared{name: raw["name"], connector: c, raw: raw, config: config, refs: refs}
	v := &validation{results: map[string]*connect.FieldResult{}, known: map[string]bool{}}
	common := connectorFields(c.Sink != nil)
	var results []connect.FieldResult
	p.common, results = connect.ParseConfig(common, config)
	v.add(common, results)
	_, results = connect.ParseConfig(c.Fields, config)
	v.add(c.Fields, results)
	for _, r := range p.crossFaults() {
		v.merge(r)
	}
	if c.Validate != nil {
		if err := guard(func() error { v.add(nil, c.Validate(ctx, config)); return nil })(); err != nil {
			return Validation{}, fmt.Errorf("validate: %w", err)
		}
	}
	w.validateConverters(v, config)
	chainFields := transform.Fields(config)
	_, results = transform.New(config)
	v.add(chainFields, results)
	w.validateClients(v, config)
	unknown := connect.Unknown(v.fields, config)
	sort.Strings(unknown)
	for _, key := range unknown {
		if w.cfg.UnknownIsError {
			v.fault(key, errors.New(unknownKey(v.fields, key)))
			continue
		}
		r := connect.FieldResult{Name: key, Visible: true}
		if near := nearestKey(v.fields, key); near != "" {
			r.Recommended = []string{near} // a key that nothing knows has no recommended values: this says what it may be meant to be
		}
		v.merge(r)
	}
	return w.render(v, p, unknown), nil
}

func unknownKey(fields []connect.Field, key string) string {
	msg := "Unknown key " + key
	if near := nearestKey(fields, key); near != "" {
		msg += "; did you mean " + near + "?"
	}
	return msg
}

func nearestKey(fields []connect.Field, key string) string {
	names := make([]string, 0, len(fields))
	for i := range fields {
		names = append(names, fields[i].Name)
	}
	return kafka.Nearest(key, names)
}

// validateConverters checks the connector's own converters.
func (w *Worker) validateConverters(v *validation, config map[string]string) {
	for _, role := range []string{"key.converter", "value.converter", "header.converter"} {
		if strings.TrimSpace(config[role]) == "" {
			continue
		}
		class, props := converterConfig(nil, config, role)
		var err error
		kind := convert.KindConverter
		switch role {
		case "header.converter":
			kind = convert.KindHeaderConverter
			_, err = convert.NewHeader(class, props)
		default:
			_, err = convert.New(class, props, role == "key.converter")
		}
		var bad *connect.Error
		switch {
		case errors.As(err, &bad) && bad.Field != "":
			v.fault(role+"."+bad.Field, bad.Err)
		case errors.Is(err, convert.ErrUnknownClass):
			v.fault(role, fmt.Errorf("Invalid value %s for configuration %s: Class %[1]s could not be found.", class, role)) //nolint:staticcheck // Java's sentence
		case err != nil:
			v.fault(role, err)
		}
		for _, info := range convert.Classes() {
			if info.Kind != kind || info.Class != class && !slices.Contains(info.Aliases, class) {
				continue
			}
			fields := make([]connect.Field, len(info.Fields))
			for i, f := range info.Fields {
				f.Name, f.Group = role+"."+f.Name, groupCommon
				fields[i] = f
			}
			_, results := connect.ParseConfig(fields, config)
			v.add(fields, results)
		}
	}
}

// validateClients checks the overrides of client settings.
func (w *Worker) validateClients(v *validation, config map[string]string) {
	for _, role := range []kafka.Role{kafka.Producer, kafka.Consumer, kafka.Admin} {
		prefix := role.String() + ".override."
		any := false
		for k := range config {
			any = any || strings.HasPrefix(k, prefix)
		}
		if !any {
			continue
		}
		props, err := w.clientProps(config, role)
		if err == nil {
			_, _, err = kafka.Options(props, role)
		}
		if err == nil {
			continue
		}
		key := prefix + "*"
		for k := range config {
			if rest, ok := strings.CutPrefix(k, prefix); ok && strings.Contains(err.Error(), rest) {
				key = k
			}
		}
		v.fault(key, err)
	}
}

// render makes Kafka Connect's answer. Values are those that were given, references unresolved and secrets masked; no
// message holds a resolved or secret value.
func (w *Worker) render(v *validation, p *prepared, unknown []string) Validation {
	out := Validation{Name: p.raw["connector.class"], Groups: []string{}, Configs: []ConfigInfo{}}
	shown := w.masked(p.raw, p.raw)
	done := map[string]bool{}
	add := func(d *Definition, key string) {
		if done[key] {
			return
		}
		done[key] = true
		val := Value{Name: key, Recommended: []string{}, Errors: []string{}, Visible: true}
		if r := v.results[key]; r != nil {
			val.Value, val.Visible = r.Value, r.Visible
			val.Recommended = append(val.Recommended, r.Recommended...)
			for _, msg := range r.Errors {
				val.Errors = append(val.Errors, p.scrub(key, msg))
			}
		}
		if s, ok := shown[key]; ok {
			val.Value = &s
		}
		if len(val.Errors) > 0 {
			out.ErrorCount += len(val.Errors)
		}
		out.Configs = append(out.Configs, ConfigInfo{Definition: d, Value: val})
	}
	for i := range v.fields {
		f := &v.fields[i]
		if f.Prefix {
			continue
		}
		if f.Group != "" && !slices.Contains(out.Groups, f.Group) {
			out.Groups = append(out.Groups, f.Group)
		}
		add(definition(f, i), f.Name)
	}
	rest := slices.Clone(unknown)
	for key := range v.results {
		if !done[key] {
			rest = append(rest, key)
		}
	}
	sort.Strings(rest)
	for _, key := range rest {
		add(nil, key)
	}
	return out
}

// definition renders a field; index gives the order of fields that name none.
func definition(f *connect.Field, index int) *Definition {
	d := &Definition{Name: f.Name, Type: string(f.Type), Required: f.Required, Importance: string(f.Importance),
		Documentation: f.Doc, Width: f.Width, DisplayName: f.Display, Dependents: []string{}, Order: f.Order}
	if !f.Required && !f.NoDefault {
		d.DefaultValue = ptr(f.Default)
		if f.Type == connect.TypePassword && f.Default != "" {
			d.DefaultValue = ptr("[hidden]")
		}
	}
	if f.Group != "" {
		d.Group = ptr(f.Group)
	}
	if d.Width == "" {
		d.Width = "NONE"
	}
	if d.DisplayName == "" {
		d.DisplayName = f.Name
	}
	if d.Importance == "" {
		d.Importance = string(connect.Low)
	}
	if d.Order == 0 {
		d.Order = index + 1
	}
	d.OrderInGroup = d.Order
	if f.Secret && f.Type == connect.TypeString {
		d.Type = string(connect.TypePassword)
	}
	return d
}

// checkConfig refuses a configuration that validation finds fault with, as Kafka Connect words it.
func (w *Worker) checkConfig(ctx context.Context, config map[string]string) error {
	if config["connector.class"] == "" {
		return badRequest("Connector config %s contains no connector type", javaMap(w.masked(config, config)))
	}
	if class := config["connector.class"]; w.connector(class) == nil {
		return badRequest("%s", w.unknownClass(class))
	}
	v, err := w.validate(ctx, config)
	if err != nil {
		return err
	}
	if v.ErrorCount == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Connector configuration is invalid and contains the following %d error(s):", v.ErrorCount)
	for _, c := range v.Configs {
		for _, msg := range c.Value.Errors {
			b.WriteString("\n" + msg)
		}
	}
	b.WriteString("\nYou can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`")
	return &Error{400, b.String()}
}
