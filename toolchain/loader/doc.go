// Package loader reads Go packages: their syntax, and of their types as much as is asked for.
//
// A generator looks at a handful of API packages and at single types of a few others (metav1.Time, corev1.PodSpec). Type-checking
// everything those import costs a second; this package parses instead, and parses a package only when one of its types is used:
//
//	ws, err := loader.Open(ctx, loader.Config{Dir: "."})
//	for _, pkg := range ws.Packages() {            // the packages below Dir that carry markers
//		at := pkg.Type("At")                       // a *loader.Decl: syntax, file, name
//		st, ok := at.Type().Underlying().(*loader.Struct)
//		for _, f := range st.Fields {
//			f.Type()                               // resolved here and now, other packages loaded as needed
//		}
//	}
//
// # Model
//
//	Workspace ── modules (go.mod, go.work, vendor, module cache)     import path → directory
//	    └── Package ── File (syntax, imports)
//	          ├── Decl (a type declaration) ── Type: Named, Basic, Pointer, Slice, Array, Map, Struct, Interface, Opaque, Param
//	          ├── Method (of the few that matter to generators)
//	          └── Const
//
// Resolution never fails half-way: what cannot be resolved is an [Invalid] type that carries its error, to be reported by whoever
// needed it. Generic types are instantiated with their arguments.
//
// # Incremental use
//
// Parsed files live in a [Cache], keyed by path, size and modification time. A Workspace is one look at the disk; to look again after
// an edit, open another with the same Cache, and only changed files are read and parsed.
//
// # Concurrency
//
// Open parses in parallel. A Workspace and all that hangs on it belong to one goroutine at a time; a Cache may be shared.
package loader
