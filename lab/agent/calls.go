package agent

import (
	"bytes"
	"go/ast"
	"go/token"
	"iter"
	"path"
	"strconv"
	"strings"
)

// functions are the functions of the standard library that open ports and start programs, with the
// agent's functions that replace them.
var functions = map[string]string{
	"net.Listen":                 "Listen",
	"crypto/tls.Listen":          "ListenTLS",
	"net/http.ListenAndServe":    "ListenAndServe",
	"net/http.ListenAndServeTLS": "ListenAndServeTLS",
	"net.ListenPacket":           "ListenPacket",
	"os/exec.Command":            "Command",
	"os/exec.CommandContext":     "CommandContext",
	"os.StartProcess":            "StartProcess",
	"syscall.Exec":               "Exec",
	"syscall.ForkExec":           "ForkExec",
	"syscall.StartProcess":       "SyscallStartProcess",
}

// dials are the functions that open connections, with those that replace them if the operator calls
// services; see inside.ServicesVariable.
var dials = map[string]string{
	"net.Dial":                  "Connect",
	"net.DialTimeout":           "ConnectTimeout",
	"crypto/tls.Dial":           "ConnectTLS",
	"crypto/tls.DialWithDialer": "ConnectTLSWith",
}

// methods are the methods of http.Server that open ports, by name, with the number of arguments.
var methods = map[string]struct {
	arguments int
	by        string
}{
	"ListenAndServe":    {0, "ServerListenAndServe"},
	"ListenAndServeTLS": {2, "ServerListenAndServeTLS"},
}

// readers are the functions that read a file, in files that name that with the namespace of a Pod,
// as operator-sdk's projects do.
var readers = map[string]string{"os.ReadFile": "ReadFile", "io/ioutil.ReadFile": "ReadFile"}

// locks are the types whose waiting goroutines would stop the time, with the types that replace
// them; see inside.Mutex.
var locks = map[string]string{"sync.Mutex": "Mutex", "sync.RWMutex": "RWMutex"}

// lockingPackages are the packages of other modules whose locks are replaced, because they wait for
// the control plane while they hold one: the manager for its caches if there are field indexes,
// until release 0.8, and a controller for the caches of its sources.
var lockingPackages = []string{"sigs.k8s.io/controller-runtime/pkg/manager",
	"sigs.k8s.io/controller-runtime/pkg/internal/controller"}

// namespaceFile has the namespace of a Pod.
const namespaceFile = "kubernetes.io/serviceaccount/namespace"

// configured are the methods of net.ListenConfig that open ports, by name.
var configured = map[string]string{"Listen": "ListenWith", "ListenPacket": "ListenPacketWith"}

// The names under which changed files import packages.
const (
	agentName = "kelson_agent"
	restName  = "kelson_rest"
	rest      = "k8s.io/client-go/rest"
	clientcmd = "k8s.io/client-go/tools/clientcmd"
)

// grpc is the module of gRPC, and grpcTransport its package that opens connections.
const (
	grpc          = "google.golang.org/grpc"
	grpcTransport = grpc + "/internal/transport"
)

// configurations are the functions of client-go that read the configuration of a Pod, with the
// functions that replace them. PACKAGE is the name of client-go's package in the file.
var configurations = map[string]string{
	rest + ".InClusterConfig": `(func() (*PACKAGE.Config, error) { return &PACKAGE.Config{Host: "http://" + kelson_agent.Host}, nil })`,
	clientcmd + ".BuildConfigFromFlags": `(func(server, file string) (*kelson_rest.Config, error) {` +
		` if server == "" && file == "" { file = kelson_agent.Kubeconfig() }; return PACKAGE.BuildConfigFromFlags(server, file) })`,
}

// mayDial reports whether a file may have something that opens connections.
func mayDial(data []byte) bool {
	for _, name := range []string{"net.Dial", "tls.Dial", "http.Transport{", "DialContext"} {
		if bytes.Contains(data, []byte(name)) {
			return true
		}
	}
	return false
}

// mayCall reports whether a file may have calls that replaceCalls replaces.
func mayCall(data []byte) bool {
	for _, name := range []string{"net.Listen", "tls.Listen", "ListenAndServe", "ListenConfig", "InClusterConfig",
		"BuildConfigFromFlags", `"os/exec"`, "StartProcess", "syscall.Exec", "syscall.ForkExec",
		namespaceFile} {
		if bytes.Contains(data, []byte(name)) {
			return true
		}
	}
	return false
}

// mayLock reports whether a file may have locks.
func mayLock(data []byte) bool {
	return bytes.Contains(data, []byte(`"sync"`))
}

// replacement has the changes of the calls in a file.
type replacement struct {
	edits   []edit
	keep    []string        // declarations that keep imports in use
	imports map[string]bool // the names of additional imports
}

// replaceCalls returns the edits that replace the calls of a file that open ports, start programs
// or read the configuration of a Pod. If dialing is true, it also replaces those that open
// connections, and if locking is true, the types of locks.
func replaceCalls(file *ast.File, at func(token.Pos) int, dialing, locking bool) replacement {
	imports := map[string]string{} // by the name in this file
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = imported
	}
	r := replacement{imports: map[string]bool{}}
	namesNamespace := false
	for literal := range literals(file) {
		namesNamespace = namesNamespace || strings.Contains(literal, namespaceFile)
	}
	kept := map[string]bool{}
	replace := func(selector *ast.SelectorExpr, name, by string) {
		r.edits = append(r.edits, edit{at(selector.Pos()), at(selector.End()), by})
		r.imports[agentName] = true
		used := name + "." + selector.Sel.Name
		if kept[used] {
			return
		}
		kept[used] = true
		declaration := "var _ = " + used
		if locks[imports[name]+"."+selector.Sel.Name] != "" { // a type
			declaration = "var _ " + used
		}
		r.keep = append(r.keep, declaration)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || imports[x.Name] == "" {
				return true
			}
			function := imports[x.Name] + "." + n.Sel.Name
			if by := readers[function]; by != "" && namesNamespace {
				replace(n, x.Name, agentName+"."+by)
			} else if by := functions[function]; by != "" {
				replace(n, x.Name, agentName+"."+by)
			} else if by := locks[function]; by != "" && locking {
				replace(n, x.Name, agentName+"."+by)
			} else if by := dials[function]; by != "" && dialing {
				replace(n, x.Name, agentName+"."+by)
			} else if by := configurations[function]; by != "" {
				replace(n, x.Name, strings.ReplaceAll(by, "PACKAGE", x.Name))
				r.imports[restName] = r.imports[restName] || strings.Contains(by, restName)
			}
		case *ast.CallExpr:
			selector, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := selector.X.(*ast.Ident); ok && imports[x.Name] != "" {
				return true
			}
			by := methods[selector.Sel.Name].by
			if by == "" || len(n.Args) != methods[selector.Sel.Name].arguments {
				if by = configured[selector.Sel.Name]; by == "" || len(n.Args) != 3 || imports["net"] != "net" {
					return true
				}
			}
			r.edits = append(r.edits, wrap(n, selector, by, at)...)
			r.imports[agentName] = true
		}
		return true
	})
	if dialing {
		r.replaceDialers(file, imports, at)
	}
	return r
}

// replaceDialers adds the edits that replace the dialers of a file: those of literals of
// http.Transport without one, and the method DialContext of literals of net.Dialer, of gRPC's
// function that returns one, and of variables of the same function with such a literal. Other
// dialers, such as those in fields, stay.
func (r *replacement) replaceDialers(file *ast.File, imports map[string]string, at func(token.Pos) int) {
	isType := func(e ast.Expr, name string) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && imports[x.Name]+"."+s.Sel.Name == name
	}
	isDialer := func(e ast.Expr) bool {
		for {
			switch inner := e.(type) {
			case *ast.ParenExpr:
				e = inner.X
				continue
			case *ast.UnaryExpr:
				e = inner.X
				continue
			case *ast.CompositeLit:
				return isType(inner.Type, "net.Dialer")
			case *ast.CallExpr:
				return isType(inner.Fun, grpc+"/internal.NetDialerWithTCPKeepalive")
			}
			return false
		}
	}
	for _, d := range file.Decls {
		variables := map[string]bool{} // with a dialer
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if name, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && isDialer(n.Rhs[i]) {
						// &net.Dialer{…}: the methods of net.Dialer have pointers
						_, pointer := n.Rhs[i].(*ast.UnaryExpr)
						variables[name.Name] = pointer
					}
				}
			case *ast.CompositeLit:
				if isType(n.Type, "net/http.Transport") && !hasDialer(n) {
					r.edits = append(r.edits, edit{at(n.Lbrace) + 1, at(n.Lbrace) + 1,
						"DialContext: " + agentName + ".DialContext, "})
					r.imports[agentName] = true
				}
			case *ast.SelectorExpr:
				name, _ := n.X.(*ast.Ident)
				if n.Sel.Name == "DialContext" && (isDialer(n.X) || name != nil && variables[name.Name]) {
					r.edits = append(r.edits, edit{at(n.X.Pos()), at(n.X.Pos()), agentName + ".DialerOf("},
						edit{at(n.X.End()), at(n.X.End()), ")"})
					r.imports[agentName] = true
				}
			}
			return true
		})
	}
}

// hasDialer reports whether a literal of http.Transport has a dialer, or fields without names.
func hasDialer(transport *ast.CompositeLit) bool {
	for _, e := range transport.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if name, ok := field.Key.(*ast.Ident); ok && (name.Name == "DialContext" || name.Name == "Dial") {
			return true
		}
	}
	return false
}

// literals yields the texts of the literals of a file.
func literals(file *ast.File) iter.Seq[string] {
	return func(yield func(string) bool) {
		more := true
		ast.Inspect(file, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				more = more && yield(l.Value)
			}
			return more
		})
	}
}

// wrap returns the edits that replace x.M(a, b) by kelson_agent.By(x, a, b).
func wrap(call *ast.CallExpr, selector *ast.SelectorExpr, by string, at func(token.Pos) int) []edit {
	separator := ""
	if len(call.Args) > 0 {
		separator = ", "
	}
	return []edit{
		{at(call.Pos()), at(call.Pos()), "kelson_agent." + by + "("},
		{at(selector.X.End()), at(call.Lparen) + 1, separator},
	}
}
