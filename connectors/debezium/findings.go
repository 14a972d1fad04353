package debezium

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/weirlog/weir/connect"
)

// Findings are what a look at a live server found, for a connector's Check and for its task.
type Findings []connect.Finding

// Add notes a fault of a key and the statement that mends it, "" for none. With a fatal one no task can run.
func (f *Findings) Add(fatal bool, key, fault, mend string) {
	*f = append(*f, connect.Finding{Field: key, Fault: fault, Mend: mend, Fatal: fatal})
}

// Tell is what a task does with them: the fatal ones are its error, the others go to the log.
func (f Findings) Tell(log *slog.Logger) error {
	if err := f.Fatal(); err != nil {
		return err
	}
	for _, one := range f {
		log.Warn(one.Fault, "mend", one.Mend)
	}
	return nil
}

// Fatal gives all fatal findings as one BadConfig, or nil.
func (f Findings) Fatal() error {
	var texts []string
	key := ""
	for _, one := range f {
		if !one.Fatal {
			continue
		}
		if key == "" {
			key = one.Field
		}
		text := one.Fault
		if one.Mend != "" {
			text += "; mend it with: " + one.Mend
		}
		texts = append(texts, text)
	}
	if texts == nil {
		return nil
	}
	return connect.BadConfig(key, errors.New(strings.Join(texts, " | ")))
}
