// Package compiler has the environment in which Kelson's commands run the go command to compile.
package compiler

import "os"

// Environ returns the environment of this process, in which the compiler and the linker collect
// garbage less often. They use a fifth less processor time, and up to 400 MiB more memory each:
// the go command runs one of them for each processor. If GOGC is set, the environment is unchanged.
//
// It is not for go test and go run, which pass the environment on to the program.
func Environ() []string {
	env := os.Environ()
	if os.Getenv("GOGC") == "" {
		env = append(env, "GOGC=1000")
	}
	return env
}
