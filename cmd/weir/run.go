package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newRun(c *cli) *cobra.Command {
	f := &connectFlags{}
	cmd := &cobra.Command{
		Use:   "run [--config connect-standalone.properties] FILE…",
		Short: "Run connectors from files on a Kafka that is there already, without a group",
		Long: `Run connectors from files on a Kafka that is there already, without a group: Kafka Connect's standalone mode.

The connectors are those of the files, JSON or Java's properties, and live as long as the process; offsets of sources are
kept in offset.storage.file.filename, in Java's format (default weir-run.offsets). Without --config, Kafka is at
--bootstrap and values are JSON without schemas.`,
		Args: someArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			began := time.Now()
			files, err := readConnectorFiles(args)
			if err != nil {
				return err
			}
			cfg, err := f.loadStandalone(c.bootstrap)
			if err != nil {
				return err
			}
			n, err := openNode(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			ctx, fail := context.WithCancelCause(cmd.Context())
			defer fail(nil)
			err = n.run(ctx, func() {
				if err := n.createAll(ctx, files); err != nil {
					fail(err)
					return
				}
				fmt.Fprintf(cmd.OutOrStdout(), "weir %s runs %d connectors after %s\n  Kafka    %s, elsewhere\n  offsets  %s\n  Connect  http://%s\n  console  http://%s\n", version, len(files),
					time.Since(began).Round(time.Millisecond), cfg.connect["bootstrap.servers"], cfg.connect["offset.storage.file.filename"], cfg.connectAddr, cfg.consoleAddr)
			})
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return errors.Join(cause, err)
			}
			return err
		},
	}
	f.add(cmd.Flags(), "connect-standalone.properties, or weir.yaml with a connect section")
	return cmd
}

// loadStandalone is load, for a worker without a group; the file may be left out.
func (f *connectFlags) loadStandalone(bootstrap string) (*nodeConfig, error) {
	n, err := f.lay()
	if err != nil {
		return nil, err
	}
	n.standalone = true
	defaults := map[string]string{"offset.storage.file.filename": "weir-run.offsets"}
	if f.config == "" {
		defaults["bootstrap.servers"] = bootstrap
	}
	for _, role := range []string{"key", "value"} {
		if f.config == "" && n.connect[role+".converter"] == "" {
			defaults[role+".converter"] = jsonConverter
			defaults[role+".converter.schemas.enable"] = "false"
		}
	}
	for k, v := range defaults {
		if n.connect[k] == "" {
			n.connect[k] = v
		}
	}
	return n, nil
}

// createAll makes the connectors of the files; the first that is refused ends the command.
func (n *node) createAll(ctx context.Context, files []connectorFile) error {
	for _, f := range files {
		if _, _, err := n.worker.PutConfig(ctx, f.Name, f.Config); err != nil {
			return fmt.Errorf("connector %s: %w", f.Name, err)
		}
	}
	return nil
}
