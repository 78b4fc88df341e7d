// Package startup makes kelson start faster as kube-apiserver, and ends it when its parent ends.
// The small program of kelson envtest sets environment variables before it executes kelson, and
// kelson restores them.
//
// Both variables have an effect while packages are initialized, before any code of kelson runs:
//
//   - GOGC=off turns the garbage collector off until kelson sets its pace. kelson allocates about
//     60 MB until it is ready.
//   - LC_ALL selects the translations that kubectl's packages load. Those of English have 150 KB,
//     the smallest file 1 KB.
package startup

import (
	"os"
	"slices"
	"strings"
)

const (
	gogc     = "GOGC"
	language = "LC_ALL"
	// former is the prefix of the names of variables that contain the former values.
	former = "KELSON_STARTUP_"
)

// Environ returns an environment for a process that calls Restore. It does not change a GOGC that
// the user has set.
func Environ(env []string) []string {
	env = slices.Clone(env)
	set := func(name, value string) {
		was := ""
		for i, v := range env {
			if old, ok := strings.CutPrefix(v, name+"="); ok {
				was, env[i] = old, name+"="+value
			}
		}
		if !slices.Contains(env, name+"="+value) {
			env = append(env, name+"="+value)
		}
		env = append(env, former+name+"="+was)
	}
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, gogc+"=") && v != gogc+"=" }) {
		set(gogc, "off")
	}
	set(language, "zh_TW.UTF-8")
	return env
}

// Restore gives this process the environment that it had before Environ. The caller must then set
// the pace of the garbage collector.
func Restore() {
	for _, name := range []string{gogc, language} {
		was, changed := os.LookupEnv(former + name)
		if !changed {
			continue
		}
		_ = os.Unsetenv(former + name)
		if was == "" {
			_ = os.Unsetenv(name)
		} else {
			_ = os.Setenv(name, was)
		}
	}
}
