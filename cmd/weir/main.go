// Command weir is the whole platform in one binary: the node (weir start) and the tools that talk to it, to Apache Kafka
// and to Kafka Connect.
//
// It is the only place that knows both towers: it composes their configurations, wires them together on one page
// (start.go) and holds the command line, one file per command group.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlog/weir/core/kafka"
)

// version is what weir version prints; the linker may set it.
var version = "0.1.0-dev"

// errUsage marks errors in what was typed: exit status 2.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weir:", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// cli is what all commands share.
type cli struct {
	bootstrap string
	url       string
	output    string
}

func newRoot() *cobra.Command {
	c := &cli{}
	root := &cobra.Command{
		Use:           "weir",
		Short:         "A data-integration platform: connectors around a replicated log that speaks Kafka",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&c.bootstrap, "bootstrap", "127.0.0.1:9092", "Kafka addresses, HOST:PORT,…")
	root.PersistentFlags().StringVar(&c.url, "url", "http://127.0.0.1:8083", "Kafka Connect REST address")
	root.PersistentFlags().StringVarP(&c.output, "output", "o", "table", "table, json or yaml")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains([]string{"table", "json", "yaml"}, c.output) {
			return fmt.Errorf("%w: --output %s: want table, json or yaml", errUsage, c.output)
		}
		return nil
	}
	root.AddCommand(newStart(), newConnect(), newRun(c), newTopic(c), newGroup(c), newConnector(c), newCluster(c), newVersion(c))
	return root
}

// flagError names the nearest flag there is.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "unknown flag: --"); ok {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		name, _, _ = strings.Cut(name, "=")
		if near := kafka.Nearest(name, known); near != "" {
			text += "; did you mean --" + near + "?"
		}
	}
	return fmt.Errorf("%w: %s (see %s --help)", errUsage, text, cmd.CommandPath())
}

// noArgs and exactArgs check positional arguments, as errors of usage.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if suggestions := cmd.SuggestionsFor(args[0]); len(suggestions) > 0 {
		return fmt.Errorf("%w: unknown command %q for %q; did you mean %s?", errUsage, args[0], cmd.CommandPath(), suggestions[0])
	}
	return fmt.Errorf("%w: %s takes no argument %q", errUsage, cmd.CommandPath(), args[0])
}

func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return fmt.Errorf("%w: %s wants %s", errUsage, cmd.CommandPath(), strings.Join(names, " "))
		}
		return nil
	}
}

func someArgs(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%w: %s wants at least one %s", errUsage, cmd.CommandPath(), name)
		}
		return nil
	}
}

// group makes a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(commands...)
	return cmd
}

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return c.print(cmd, listing{columns: []string{"VERSION", "GO", "PLATFORM"}, rows: []any{versionRow()}, cells: func(v any) []string {
			r := v.(versionInfo)
			return []string{r.Version, r.Go, r.Platform}
		}})
	}}
}
