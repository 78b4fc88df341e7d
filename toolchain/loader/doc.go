// Package loader parses Go packages and resolves their types lazily.
//
// A generator needs a few API packages and single types of other packages (metav1.Time,
// corev1.PodSpec). Type-checking everything that they import takes a second. This package only
// parses, and parses a package when one of its types is first used:
//
//	ws, err := loader.Open(ctx, loader.Config{Dir: "."})
//	for _, pkg := range ws.Packages() {            // the packages below Dir that carry markers
//		at := pkg.Type("At")                       // a *loader.Decl: syntax, file, name
//		st, ok := at.Type().Underlying().(*loader.Struct)
//		for _, f := range st.Fields {
//			f.Type()                               // resolved now; other packages are loaded as needed
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
// Resolution does not stop at errors. An expression that cannot be resolved becomes an [Invalid]
// type with the error, which the caller reports if it needs the type. Generic types are
// instantiated with their arguments.
//
// # Incremental use
//
// A [Cache] keeps parsed files, keyed by path, size and modification time. A Workspace is a
// snapshot of the disk. After an edit, open another Workspace with the same Cache; it reads and
// parses only files that changed.
//
// # Concurrency
//
// Open parses in parallel. A Workspace, and everything reached through it, must be used by one
// goroutine at a time. A Cache is safe for concurrent use.
package loader
