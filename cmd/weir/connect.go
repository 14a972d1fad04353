package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirlog/weir/core/kafka"
)

func newConnect() *cobra.Command {
	f := &connectFlags{}
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Run a worker on a Kafka that is there already",
		Long: `Run a worker on a Kafka that is there already: connectors, Kafka Connect's REST and the console, without a log of its own.

A Java worker's connect-distributed.properties is taken as it is, and so are its three topics: weir goes on where
the Java worker has stopped, and the Java worker where weir has. Workers of one group.id share its connectors and
tasks: when one is gone, the others have what it had.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			cfg, err := f.load()
			if err != nil {
				return err
			}
			n, err := openNode(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return n.run(cmd.Context(), func() {
				fmt.Fprintf(cmd.OutOrStdout(), "weir %s is ready after %s\n  Kafka    %s, elsewhere\n  group    %s\n  Connect  http://%s\n  console  http://%s\n",
					version, time.Since(began).Round(time.Millisecond), cfg.connect["bootstrap.servers"], cfg.connect["group.id"], cfg.connectAddr, cfg.consoleAddr)
			})
		},
	}
	f.add(cmd.Flags(), "connect-distributed.properties, or weir.yaml with a connect section")
	return cmd
}

// connectFlags are the flags of weir connect that lie over the file.
type connectFlags struct {
	config, connect, console string
	insecure                 bool
	set                      []string
}

func (f *connectFlags) add(flags *pflag.FlagSet, config string) {
	flags.StringVar(&f.config, "config", "", config)
	flags.StringVar(&f.connect, "connect", "", "where to serve Connect's REST, HOST:PORT (default: listeners, else 127.0.0.1:8083)")
	flags.StringVar(&f.console, "console", "", "where to serve the console and /metrics, HOST:PORT (default 127.0.0.1:8080)")
	flags.BoolVar(&f.insecure, "insecure", false, "allow addresses that others can reach, without authentication")
	flags.StringArrayVar(&f.set, "set", nil, "section.key=value over the file, as connect.group.id=other; may be repeated")
}

func (f *connectFlags) load() (*nodeConfig, error) {
	if f.config == "" {
		return nil, fmt.Errorf("%w: weir connect wants --config connect-distributed.properties", errUsage)
	}
	return f.lay()
}

// lay reads the file, lays the flags over it and checks what the worker does not check itself.
func (f *connectFlags) lay() (*nodeConfig, error) {
	s, java, err := f.read()
	if err != nil {
		return nil, err
	}
	for _, assignment := range f.set {
		if err := s.set(assignment); err != nil {
			return nil, err
		}
	}
	node, console := s.sections["node"], s.sections["console"]
	n := &nodeConfig{connect: s.sections["connect"], javaFile: java, level: new(slog.LevelVar)}
	faults := []error{n.setNode(node), unknownKeys("console", console, []string{"listeners"})}
	if len(s.sections["broker"]) > 0 {
		faults = append(faults, errors.New("section broker: there is no broker of its own here, weir start has one"))
	}
	if node["data"] != "" {
		faults = append(faults, errors.New("node.data: there is no data folder here; connect.scratch.dir is where tasks may write"))
	}
	addresses := &startFlags{insecure: f.insecure}
	n.connectAddr = addresses.address(f.connect, n.connect["listeners"], connectPort, 0)
	n.consoleAddr = addresses.address(f.console, console["listeners"], consolePort, 0)
	n.listenAt(f.connect != "")
	faults = append(faults, checkListener("connect", n.connectAddr, f.insecure), checkListener("console", n.consoleAddr, f.insecure))
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return n, nil
}

// read reads the file, if there is one: YAML by its name, otherwise Java's properties, which are the connect section.
func (f *connectFlags) read() (s *settings, java bool, err error) {
	if ext := filepath.Ext(f.config); ext == ".yaml" || ext == ".yml" || f.config == "" {
		s, err = readSettings(f.config)
		return s, false, err
	}
	if s, err = readSettings(""); err != nil {
		return nil, false, err
	}
	file, err := os.Open(f.config)
	if err != nil {
		return nil, false, fmt.Errorf("read configuration: %w", err)
	}
	defer file.Close()
	props, err := kafka.ParseProperties(file)
	if err != nil {
		return nil, false, fmt.Errorf("read configuration %s: %w", f.config, err)
	}
	s.sections["connect"] = props
	return s, true, nil
}

// processIdentity names this process by what no other that lives can have: this boot of the machine, the network that it
// sees, and the address that it listens on there. The next process that binds the address has the same name, and
// knows by that that this one is gone. "" where that can't be told.
func processIdentity(bound net.Addr) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{string(boot), network, bound.String()}, "\n")))
	return hex.EncodeToString(sum[:8])
}

// scratchFolder makes the folder in which tasks may write when none is configured. It is below a folder that anybody may
// write, so one that somebody else has made is refused.
func scratchFolder(identity string) (string, error) {
	dir := filepath.Join(os.TempDir(), "weir-connect-"+cmp.Or(identity, fmt.Sprint(os.Getpid())))
	err := os.Mkdir(dir, 0o700)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return dir, err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || int(stat.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s is not this user's folder; set connect.scratch.dir", dir)
	}
	return dir, nil
}
