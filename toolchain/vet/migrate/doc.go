// Package migrate reads a Go project that uses controller-runtime and reports which changes a move
// to the operator library needs.
//
//	report, err := migrate.Read(ctx, ".")
//	report.Write(os.Stdout)
//
// # Model
//
// Read type-checks the project, and finds every use of a name of controller-runtime, and the uses
// of client-go's informers. There are two ways to move, and a verdict for each use and each way:
//
//   - The whole program: ctrl.NewManager becomes adapter.NewManager, and controller-runtime's own
//     code runs on the library's cache and client. Almost all code moves unchanged. Findings of
//     this way are in Report.Program.
//   - Reconciler by reconciler: a reconciler runs on the library's manager. For each, the report
//     says which calls move with the builder of package adapter, and which have an equivalent in
//     the library. Findings of this way are in Report.Reconcilers.
//
// Rules name functions, methods and fields as in "builder.Builder.Owns": the last element of the
// package path, the type without the prefix Typed, and the member.
package migrate
