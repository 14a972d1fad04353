package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirlog/weir/connect"
)

func (v *Validation) of(key string) Value {
	for _, c := range v.Configs {
		if c.Value.Name == key {
			return c.Value
		}
	}
	return Value{}
}

// A validation looks at the live system once the configuration itself is right: each fatal finding is an error of its key,
// with its remedy and without secrets. Creating does not look.
func TestValidateLooksAtTheLiveSystem(t *testing.T) {
	c := newCluster(t)
	conn := (&memorySource{total: 1}).connector()
	conn.Fields = append(conn.Fields, connect.Field{Name: "password", Type: connect.TypePassword, NoDefault: true})
	looks := 0
	var fault error
	conn.Check = func(_ context.Context, in connect.Instance) ([]connect.Finding, error) {
		looks++
		return []connect.Finding{
			{Field: "tasks.max", Fault: "the role " + in.Config["password"] + " may not read", Mend: "GRANT SELECT", Fatal: true},
			{Fault: "only slow", Fatal: false},
		}, fault
	}
	w := c.start(conn)
	ctx := context.Background()
	config := map[string]string{"name": "src", "connector.class": sourceClass, "password": "s3cret", "tasks.maxx": "1"}

	v, err := w.Validate(ctx, sourceClass, config)
	if err != nil {
		t.Fatal(err)
	}
	if got := v.of("tasks.max").Errors; v.ErrorCount != 1 || !slices.Equal(got, []string{"the role [hidden] may not read; mend it with: GRANT SELECT"}) {
		t.Errorf("%d errors, of tasks.max %q", v.ErrorCount, got)
	}
	if got := v.of("tasks.maxx"); !slices.Equal(got.Recommended, []string{"tasks.max"}) || len(got.Errors) != 0 {
		t.Errorf("an unknown key shows %+v, want the nearest known one recommended", got)
	}

	fault = connect.BadConfig("password", errors.New("wrong password s3cret"))
	if v, err = w.Validate(ctx, sourceClass, config); err != nil {
		t.Fatal(err)
	}
	if got := v.of("password").Errors; v.ErrorCount != 2 || !slices.Equal(got, []string{"wrong password [hidden]"}) {
		t.Errorf("%d errors, of password %q", v.ErrorCount, got)
	}

	before := looks
	if v, err = w.Validate(ctx, sourceClass, map[string]string{"name": "src", "connector.class": sourceClass, "tasks.max": "x"}); err != nil || looks != before {
		t.Errorf("looked at the system for a configuration with faults: %v", err)
	}
	if !strings.Contains(strings.Join(v.of("tasks.max").Errors, " "), "Invalid value x") {
		t.Errorf("tasks.max shows %+v", v.of("tasks.max"))
	}
	if _, created, err := w.PutConfig(ctx, "src", config); err != nil || !created || looks != before {
		t.Errorf("creating looked at the system, or failed: %v", err)
	}
}
