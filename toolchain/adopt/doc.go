// Package adopt finds out how a project that Kelson did not create runs controller-gen, so that
// Kelson's generators do the same.
//
//	plan, err := adopt.Find(dir)
//	for _, call := range plan.Calls {
//		runs, err := call.Options()
//		for _, opts := range runs {
//			result, err := toolchain.Generate(ctx, opts)
//		}
//	}
//
// Find reads, in this order and up to the first that has calls:
//
//  1. File, the project's own list of calls;
//  2. its Makefiles with the files that they include, and the shell scripts that these run with
//     their arguments;
//  3. the scripts in hack, scripts, build and tools;
//  4. the go:generate directives of its Go files.
//
// It runs no program: it expands the variables that the files assign, the make functions that only
// change text, and the usual ways to name the project's folder. Calls with other variables, and
// those in a Taskfile, are in Plan.Unknown.
package adopt
