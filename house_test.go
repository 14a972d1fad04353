// Package weir_test checks the house itself: which package may import which,
// that each says what it is for, and a few habits that reviews would otherwise
// have to catch. The rules are data at the top of the file; ARCHITECTURE.md
// tells their reasons.
package weir_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/weirlog/weir"

// anything lets a package import every other package of the module.
const anything = "*"

// imports is the import table: for each package of the module (a path below the
// module's, or a path ending in /* for one level below it) the packages of the
// module that its files other than tests may import. What is not listed may not
// be imported; a package that is not listed may not exist.
//
// The broker tower stores records, the connect tower moves them, and they meet
// only on the Kafka wire: nothing but cmd/weir and e2e imports from both.
var imports = map[string][]string{
	".":        {},
	"cmd/weir": {anything},
	"e2e":      {anything},
	"e2e/*":    {anything},

	// The broker tower.
	"core":          {"core/auth", "core/coord", "core/kafka", "core/meta", "core/record", "core/replica", "core/settings", "core/budget", "storage", "storage/vfs"},
	"core/auth":     {"core/settings"},
	"core/budget":   {},
	"core/coord":    {"core/record"},
	"core/coretest": {"core", "core/auth", "core/coord", "core/kafka", "core/meta", "core/record", "core/replica", "storage", "storage/vfs"},
	"core/kafka":    {"core/settings"},
	"core/meta":     {"core/record", "storage"},
	"core/record":   {},
	"core/replica":  {"storage"},
	"core/settings": {},
	"storage":       {"storage/vfs", "storage/tier"},
	"storage/tier":  {"storage/vfs"},
	"storage/vfs":   {},

	// The connect tower.
	"connect":                          {},
	"connect/connecttest":              {"connect"},
	"connect/console":                  {"connect", "core/kafka"},
	"connect/convert":                  {"connect"},
	"connect/provider":                 {"connect"},
	"connect/registry":                 {"connect", "core/kafka"},
	"connect/rest":                     {"connect", "connect/worker"},
	"connect/transform":                {"connect"},
	"connect/worker":                   {"connect", "connect/convert", "connect/provider", "connect/transform", "core/budget", "core/kafka", "core/settings"},
	"connectors":                       {"connect", "connectors/*"},
	"connectors/*":                     {"connect", "core/kafka"},
	"connectors/debezium":              {"connect"},
	"connectors/debezium/debeziumtest": {"connect", "connectors/debezium"},
	"connectors/mysql":                 {"connect", "core/kafka", "connectors/debezium", "connectors/mysql/*"},
	"connectors/mysql/*":               {"connect", "connectors/debezium", "connectors/mysql/schema"},
	"connectors/postgres":              {"connect", "core/kafka", "connectors/debezium"},
	"mirror":                           {"connect", "core/kafka"},
	"plugins":                          {"connect", "plugins/pluginpb"},
	"plugins/pluginpb":                 {},
}

// bannedNames are package names that say nothing about what is inside.
var bannedNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "types", "misc", "base"}

// source is one parsed Go file of the module.
type source struct {
	file string // slash-separated, relative to the module
	dir  string // "." for the root
	test bool
	tree *ast.File
}

// sources parses every Go file of the module, leaving out other modules nested
// in it and folders that hold no code of ours.
func sources(t *testing.T) ([]source, *token.FileSet) {
	t.Helper()
	fset := token.NewFileSet()
	var found []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipFolder(name, entry.Name())
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		tree, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(name)
		found = append(found, source{file: file, dir: path.Dir(file), test: strings.HasSuffix(file, "_test.go"), tree: tree})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 2 {
		t.Fatalf("found only %d Go files: this test must run in the module's folder", len(found))
	}
	return found, fset
}

func skipFolder(name, base string) error {
	if name == "." {
		return nil
	}
	if strings.HasPrefix(base, ".") || base == "testdata" || base == "bin" || base == "weir-data" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// match says whether a rule ("core/meta", "connectors/*", "*") names dir.
func match(rule, dir string) bool {
	if rule == anything {
		return true
	}
	if parent, one := strings.CutSuffix(rule, "/*"); one {
		return path.Dir(dir) == parent
	}
	return rule == dir
}

// allowed finds what dir may import; an exact entry wins over a pattern.
func allowed(table map[string][]string, dir string) ([]string, bool) {
	if rules, ok := table[dir]; ok {
		return rules, true
	}
	for pattern, rules := range table {
		if match(pattern, dir) {
			return rules, true
		}
	}
	return nil, false
}

// forbidden tells what is wrong with the import of target by dir, or nothing.
func forbidden(table map[string][]string, dir, target string) string {
	rules, known := allowed(table, dir)
	if !known {
		return "package " + dir + " is not in the import table; give it a place in ARCHITECTURE.md and here"
	}
	if target == "" || slices.ContainsFunc(rules, func(rule string) bool { return match(rule, target) }) {
		return ""
	}
	return "package " + dir + " may not import " + target
}

func TestImportsFollowTheTable(t *testing.T) {
	files, fset := sources(t)
	for _, src := range files {
		if src.test {
			continue
		}
		if fault := forbidden(imports, src.dir, ""); fault != "" {
			t.Errorf("%s: %s", src.file, fault)
			continue
		}
		for _, spec := range src.tree.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			target, ours := strings.CutPrefix(name, modulePath+"/")
			if !ours {
				continue
			}
			if fault := forbidden(imports, src.dir, target); fault != "" {
				t.Errorf("%s: %s", fset.Position(spec.Pos()), fault)
			}
		}
	}
}

// TestTheTableRefuses shows that the rule finds what it must find.
func TestTheTableRefuses(t *testing.T) {
	for _, c := range []struct {
		dir, target string
		refused     bool
	}{
		{"cmd/weir", "core", false},
		{"connectors/postgres", "connect", false},
		{"connectors/postgres", "core/kafka", false},
		{"connectors/postgres", "connect/worker", true},
		{"connectors/postgres", "connectors/s3", true},
		{"connectors", "connectors/s3", false},
		{"connect", "connect/convert", true},
		{"connect/worker", "core", true},
		{"connect/worker", "storage", true},
		{"core", "connect", true},
		{"core/meta", "storage", false},
		{"core/coord", "storage", true},
		{"storage", "core/meta", true},
		{"storage/vfs", "storage", true},
		{"core/util", "", true},
	} {
		if got := forbidden(imports, c.dir, c.target) != ""; got != c.refused {
			t.Errorf("import of %q by %q: refused %v, want %v", c.target, c.dir, got, c.refused)
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	files, _ := sources(t)
	documented := map[string]bool{}
	for _, src := range files {
		if src.test && src.dir != "." {
			continue
		}
		has := src.tree.Doc != nil && strings.TrimSpace(src.tree.Doc.Text()) != ""
		documented[src.dir] = documented[src.dir] || has
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment: its doc.go says purpose, central type, invariants, neighbours", dir)
		}
	}
}

func TestPackageNamesSaySomething(t *testing.T) {
	files, _ := sources(t)
	for _, src := range files {
		if name := src.tree.Name.Name; slices.Contains(bannedNames, name) {
			t.Errorf("%s: package name %q says nothing about what is inside", src.file, name)
		}
	}
}

func TestNoInitAndNoBackgroundBelowCmd(t *testing.T) {
	files, fset := sources(t)
	for _, src := range files {
		if src.test {
			continue
		}
		for _, decl := range src.tree.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: func init; pass a value from cmd instead", fset.Position(fn.Pos()))
			}
		}
		if src.dir == "cmd/weir" || src.dir == "e2e" || strings.HasPrefix(src.dir, "e2e/") || strings.HasPrefix(src.dir, "plugins/pluginpb") {
			continue
		}
		ast.Inspect(src.tree, func(node ast.Node) bool {
			sel, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if ok && pkg.Name == "context" && (sel.Sel.Name == "Background" || sel.Sel.Name == "TODO") {
				t.Errorf("%s: context.%s below cmd; take the caller's context", fset.Position(sel.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}
