package explore

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The packages whose functions the main package of an operator calls.
const (
	library = "kelson.dev/operator"
	runtime = "sigs.k8s.io/controller-runtime"
	pflag   = "github.com/spf13/pflag"
)

// replaced are the functions that the explorer replaces in the main package, by package.
var replaced = map[string]map[string]string{
	library:                          {"Main": "kelsonExploreMain"},
	runtime:                          {"GetConfigOrDie": "kelsonExploreConfigOrDie", "GetConfig": "kelsonExploreConfig", "NewManager": "kelsonExploreManager", "SetupSignalHandler": "kelsonExploreSignals"},
	runtime + "/pkg/client/config":   {"GetConfigOrDie": "kelsonExploreConfigOrDie", "GetConfig": "kelsonExploreConfig"},
	runtime + "/pkg/manager":         {"New": "kelsonExploreManager"},
	runtime + "/pkg/manager/signals": {"SetupSignalHandler": "kelsonExploreSignals"},
	"os":                             {"Exit": "kelsonExploreExit"},
}

// rewritten is a file of a main package after the replacement.
type rewritten struct {
	source []byte
	main   bool // it calls operator.Main
	manage bool // it creates a manager of controller-runtime
	pflag  bool // it imports the package pflag
}

// rewrite replaces the functions in a Go file. The source is nil if nothing changes.
func rewrite(name string, source []byte) (rewritten, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return rewritten{}, err
	}
	packages := map[string]string{} // by the name in this file
	var r rewritten
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return rewritten{}, err
		}
		r.pflag = r.pflag || imported == pflag
		local := path.Base(imported)
		if imported == runtime {
			local = "controllerruntime"
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		packages[local] = imported
	}
	var b strings.Builder
	keep := map[string]string{} // imports that must stay in use
	done := 0
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		by := replaced[packages[x.Name]][selector.Sel.Name]
		if by == "" {
			return true
		}
		b.Write(source[done:files.Position(selector.Pos()).Offset])
		b.WriteString(by)
		done = files.Position(selector.End()).Offset
		keep[x.Name] = x.Name + "." + selector.Sel.Name
		r.main = r.main || by == "kelsonExploreMain"
		r.manage = r.manage || by == "kelsonExploreManager"
		return true
	})
	if done == 0 {
		return r, nil
	}
	b.Write(source[done:])
	b.WriteString("\n// These keep the imports in use.\n")
	for _, selector := range slices.Sorted(maps.Values(keep)) {
		fmt.Fprintf(&b, "var _ = %s\n", selector)
	}
	r.source = []byte(b.String())
	return r, nil
}
