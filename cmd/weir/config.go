package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/weirlog/weir/connect/provider"
	"github.com/weirlog/weir/core"
	"github.com/weirlog/weir/core/kafka"
)

// The ports of a node, counted from --port-base when that is given.
const (
	kafkaPort    = 9092
	connectPort  = 8083
	registryPort = 8081
	consolePort  = 8080
)

// nodeKeys are the keys of weir.yaml's node section.
func nodeKeys() []string {
	return []string{"data", "join", "memory", "log.level", "log.format", "pprof"}
}

// settings is weir.yaml after the command line was laid over it: sections of flat keys.
type settings struct {
	sections map[string]map[string]string
}

// sectionNames are the sections that a weir.yaml may have.
func sectionNames() []string { return []string{"node", "broker", "connect", "console"} }

// laterSections are those of the plan that this version has not got.
func laterSections() []string { return []string{"registry", "mirror"} }

// readSettings reads a weir.yaml; "" is an empty one. Nested keys are joined by dots.
func readSettings(path string) (*settings, error) {
	s := &settings{sections: map[string]map[string]string{}}
	for _, name := range sectionNames() {
		s.sections[name] = map[string]string{}
	}
	if path == "" {
		return s, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var top map[string]any
	if err := yaml.Unmarshal(b, &top); err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if err := s.section(name, top[name]); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return s, nil
}

func (s *settings) section(name string, value any) error {
	into, ok := s.sections[name]
	if !ok {
		return unknownSection(name)
	}
	keys, ok := value.(map[string]any)
	if !ok && value != nil {
		return fmt.Errorf("section %s: want keys and values", name)
	}
	return flatten(into, name, "", keys)
}

func unknownSection(name string) error {
	if slices.Contains(laterSections(), name) {
		return fmt.Errorf("section %s: this version has no %s", name, name)
	}
	err := fmt.Errorf("unknown section %s", name)
	if near := kafka.Nearest(name, sectionNames()); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return err
}

// flatten joins nested keys by dots and lists by commas.
func flatten(into map[string]string, section, prefix string, keys map[string]any) error {
	for k, v := range keys {
		switch v := v.(type) {
		case map[string]any:
			if err := flatten(into, section, prefix+k+".", v); err != nil {
				return err
			}
		case []any:
			items := make([]string, len(v))
			for i := range v {
				items[i] = fmt.Sprint(v[i])
			}
			into[prefix+k] = strings.Join(items, ",")
		case nil:
			into[prefix+k] = ""
		case string, bool, int, int64, uint64, float64:
			into[prefix+k] = fmt.Sprint(v)
		default:
			return fmt.Errorf("section %s, key %s%s: want a text, number, boolean or list", section, prefix, k)
		}
	}
	return nil
}

// set takes one --set section.key=value.
func (s *settings) set(assignment string) error {
	name, value, ok := strings.Cut(assignment, "=")
	section, key, dotted := strings.Cut(name, ".")
	if !ok || !dotted || key == "" {
		return fmt.Errorf("%w: --set %s: want section.key=value, as broker.num.partitions=3", errUsage, assignment)
	}
	into, ok := s.sections[section]
	if !ok {
		return fmt.Errorf("%w: --set %s: %w", errUsage, assignment, unknownSection(section))
	}
	into[key] = value
	return nil
}

// nodeConfig is all that start and connect need, checked.
type nodeConfig struct {
	broker      *core.Config      // nil: the log is elsewhere
	connect     map[string]string // worker properties; without bootstrap.servers where there is a broker
	standalone  bool              // no group, offsets in a file
	javaFile    bool              // they are a Java worker's file: keys that nothing knows are warnings
	kafkaAddr   string
	connectAddr string
	consoleAddr string
	dir         string
	memoryBytes int64
	level       *slog.LevelVar
	json        bool
	pprof       bool
}

// startFlags are the flags of weir start that lie over the file.
type startFlags struct {
	config, data, kafka, connect, console, join string
	portBase                                    int
	insecure                                    bool
	set                                         []string
}

// load reads the file, lays the flags over it and checks everything, reporting all faults at once.
func (f *startFlags) load() (*nodeConfig, error) {
	s, err := readSettings(f.config)
	if err != nil {
		return nil, err
	}
	for _, assignment := range f.set {
		if err := s.set(assignment); err != nil {
			return nil, err
		}
	}
	node, broker, console := s.sections["node"], s.sections["broker"], s.sections["console"]
	n := &nodeConfig{connect: s.sections["connect"], level: new(slog.LevelVar)}
	n.kafkaAddr = f.address(f.kafka, broker["listeners"], kafkaPort, 0)
	n.connectAddr = f.address(f.connect, n.connect["listeners"], connectPort, 1)
	n.consoleAddr = f.address(f.console, console["listeners"], consolePort, 3)
	delete(broker, "listeners")
	delete(console, "listeners")
	n.listenAt(f.connect != "" || f.portBase > 0)
	n.dir = cmp.Or(f.data, node["data"], broker["log.dirs"], "weir-data")

	faults := []error{n.setNode(node), unknownKeys("console", console, []string{"listeners"})}
	standard := core.Default(filepath.Join(n.dir, "log"))
	n.broker = &standard
	delete(broker, "log.dirs")
	n.share(broker)
	faults = append(faults, revealSecret(broker), n.broker.Set(broker))
	n.broker.Join = addresses(cmp.Or(f.join, node["join"]))
	faults = append(faults, n.checkAdvertised())
	if f.portBase < 0 {
		faults = append(faults, fmt.Errorf("--port-base %d: want a port", f.portBase))
	}
	for what, addr := range map[string]string{"kafka": n.kafkaAddr, "connect": n.connectAddr, "console": n.consoleAddr} {
		faults = append(faults, checkListener(what, addr, f.insecure))
	}
	if n.broker.ClusterSecret == "" && n.connect["session.timeout.ms"] == "" {
		n.connect["session.timeout.ms"] = "30000" // nobody waits to take over from this worker, so a stall need not end its tasks
	}
	n.connectDefaults()
	for _, store := range []string{"config", "offset", "status"} {
		n.broker.GrowingTopics = append(n.broker.GrowingTopics, n.connect[store+".storage.topic"])
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return n, nil
}

// checkAdvertised refuses what tells other nodes to look for this one everywhere.
func (n *nodeConfig) checkAdvertised() error {
	addr := cmp.Or(n.broker.Advertise, n.kafkaAddr)
	host, _, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); n.broker.ClusterSecret == "" || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return nil
	}
	return fmt.Errorf("broker.advertised.listeners: other nodes can't reach this one at %s: set it to an address that all of them reach", addr)
}

// secretVariable is where cluster.secret may be instead of a file.
const secretVariable = "WEIR_CLUSTER_SECRET"

// revealSecret resolves the reference that cluster.secret may be: ${env:NAME}, ${file:/path:key} or ${directory:/path:file}. Without
// the key it is the environment's.
func revealSecret(broker map[string]string) error {
	const key = "cluster.secret"
	text, isSet := broker[key]
	if !isSet {
		if secret := os.Getenv(secretVariable); secret != "" {
			broker[key] = secret
		}
		return nil
	}
	providers := map[string]string{"config.providers": "env,file,directory"}
	for _, name := range []string{"env", "file", "directory"} {
		providers["config.providers."+name+".class"] = name
	}
	r, err := provider.New(providers)
	if err != nil {
		return fmt.Errorf("broker.%s: %w", key, err)
	}
	resolved, refs, err := r.Resolve(map[string]string{key: text})
	if err != nil {
		return fmt.Errorf("broker.%s: %w", key, err)
	}
	if strings.HasPrefix(text, "${") && !refs[key] {
		delete(broker, key)
		return fmt.Errorf("broker.%s: %s: there is no such thing", key, text)
	}
	broker[key] = strings.TrimSpace(resolved[key])
	return nil
}

// addresses is a list of HOST:PORT, which may have Java's schemes before them.
func addresses(text string) []string {
	var list []string
	for addr := range strings.SplitSeq(text, ",") {
		if _, rest, ok := strings.Cut(addr, "://"); ok {
			addr = rest
		}
		if addr = strings.ToLower(strings.TrimSpace(addr)); addr != "" {
			list = append(list, addr)
		}
	}
	return list
}

// address chooses where to listen: the flag, then the port base, then the file, then the default.
func (f *startFlags) address(flag, file string, port, index int) string {
	if f.portBase > 0 {
		port = f.portBase + index
	}
	standard := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if flag == "" && f.portBase > 0 {
		return standard
	}
	addr, _, _ := strings.Cut(cmp.Or(flag, file, standard), ",") // the first of Java's listeners
	if _, rest, ok := strings.Cut(addr, "://"); ok {
		return rest
	}
	return addr
}

// listenAt tells the worker where its REST is. What the file says it keeps, where no flag is over it: it judges the schemes.
func (n *nodeConfig) listenAt(flag bool) {
	if flag || !strings.Contains(n.connect["listeners"], "://") {
		n.connect["listeners"] = "http://" + n.connectAddr
	}
}

func (n *nodeConfig) setNode(node map[string]string) error {
	faults := []error{unknownKeys("node", node, nodeKeys())}
	if err := n.level.UnmarshalText([]byte(cmp.Or(node["log.level"], "INFO"))); err != nil {
		faults = append(faults, fmt.Errorf("node.log.level %q: want DEBUG, INFO, WARN or ERROR", node["log.level"]))
	}
	switch node["log.format"] {
	case "", "text":
	case "json":
		n.json = true
	default:
		faults = append(faults, fmt.Errorf("node.log.format %q: want text or json", node["log.format"]))
	}
	switch node["pprof"] {
	case "", "false":
	case "true":
		n.pprof = true
	default:
		faults = append(faults, fmt.Errorf("node.pprof %q: want true or false", node["pprof"]))
	}
	var err error
	if n.memoryBytes, err = memoryLimit(cmp.Or(node["memory"], "25%")); err != nil {
		faults = append(faults, fmt.Errorf("node.memory: %w", err))
	}
	return errors.Join(faults...)
}

const (
	leastMemoryBytes = 96 << 20
	mostTailBytes    = 256 << 20
	mostRequestBytes = 1 << 30
)

// share gives the broker its part of the process's memory unless the file says otherwise: an eighth each for requests
// and tails. What tasks may hold is bounded by connect.task.memory.
func (n *nodeConfig) share(broker map[string]string) {
	eighth := n.memoryBytes / 8
	if broker["queued.max.request.bytes"] == "" {
		broker["queued.max.request.bytes"] = strconv.FormatInt(min(eighth, mostRequestBytes), 10)
	}
	if broker["log.tail.bytes"] == "" {
		broker["log.tail.bytes"] = strconv.FormatInt(min(eighth, mostTailBytes), 10)
	}
}

// memoryLimit reads bytes with an optional suffix (K, M, G: powers of 1024) or a percentage of the machine's memory.
func memoryLimit(text string) (int64, error) {
	bad := fmt.Errorf("%q: want bytes, as 512M, or a share of the machine's memory, as 25%%", text)
	var limit int64
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || share <= 0 || share > 100 {
			return 0, bad
		}
		limit = int64(float64(machineMemory()) * share / 100)
		return max(limit, leastMemoryBytes), nil
	}
	unit := int64(1)
	for suffix, size := range map[string]int64{"K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(text), suffix); ok {
			text, unit = rest, size
			break
		}
	}
	count, err := strconv.ParseInt(text, 10, 64)
	if err != nil || count <= 0 || count > (1<<62)/unit {
		return 0, bad
	}
	if limit = count * unit; limit < leastMemoryBytes {
		return 0, fmt.Errorf("%d bytes: at least %d MiB are needed", limit, leastMemoryBytes>>20)
	}
	return limit, nil
}

// machineMemory is what this process may use at most: the machine's memory, or its cgroup's limit if that is lower.
func machineMemory() int64 {
	const fallback = 2 << 30 // where neither can be read
	total := int64(fallback)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil && runtime.GOOS == "linux" {
		for line := range strings.SplitSeq(string(b), "\n") {
			if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
				if kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64); err == nil {
					total = kib << 10
				}
			}
		}
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if limit, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && limit > 0 {
			total = min(total, limit)
		}
	}
	return total
}

const jsonConverter = "org.apache.kafka.connect.json.JsonConverter"

// connectDefaults fills what a Java worker would refuse to start without.
func (n *nodeConfig) connectDefaults() {
	for k, v := range map[string]string{
		"group.id": "weir", "config.storage.topic": "weir-configs", "offset.storage.topic": "weir-offsets", "status.storage.topic": "weir-status",
		"config.storage.replication.factor": "-1", "offset.storage.replication.factor": "-1", "status.storage.replication.factor": "-1",
		"connect.scratch.dir":   filepath.Join(n.dir, "scratch"),
		"connect.group.wait.ms": "-1", // another worker of the group must not keep the log from being served
	} {
		if n.connect[k] == "" {
			n.connect[k] = v
		}
	}
	for _, role := range []string{"key", "value"} {
		if n.connect[role+".converter"] == "" {
			n.connect[role+".converter"] = jsonConverter
			if n.connect[role+".converter.schemas.enable"] == "" {
				n.connect[role+".converter.schemas.enable"] = "false"
			}
		}
	}
}

// checkListener refuses an address that others can reach, since nothing authenticates them yet.
func checkListener(what, addr string, insecure bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("--%s %s: want HOST:PORT", what, addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("--%s %s: %s is no port", what, addr, port)
	}
	if ip := net.ParseIP(host); insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("--%s %s: others could reach it without authentication; listen on 127.0.0.1, or say --insecure", what, addr)
}

func unknownKeys(section string, keys map[string]string, known []string) error {
	var faults []error
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if slices.Contains(known, k) {
			continue
		}
		err := fmt.Errorf("unknown key %s.%s", section, k)
		if near := kafka.Nearest(k, known); near != "" {
			err = fmt.Errorf("%w; did you mean %s?", err, near)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
