// Package kubeconfig finds the cluster that a command acts on.
package kubeconfig

import (
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Load reads a kubeconfig: the file, or if it is empty, the files that kubectl reads. An empty
// context means the current one.
func Load(file, context string) (*rest.Config, clientcmd.ClientConfig, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: context})
	config, err := loader.ClientConfig()
	switch {
	case err == nil:
		return config, loader, nil
	case clientcmd.IsEmptyConfig(err) && file != "":
		return nil, nil, fmt.Errorf("kubeconfig %s names no cluster", file)
	case clientcmd.IsEmptyConfig(err):
		return nil, nil, fmt.Errorf("no cluster is configured in %s: pass --kubeconfig, or set KUBECONFIG",
			strings.Join(rules.Precedence, ", "))
	}
	return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
}

// plain matches file names that shells read as they are.
var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// Export returns the shell command that makes kubectl use a kubeconfig, with an absolute path.
func Export(file string) string {
	if absolute, err := filepath.Abs(file); err == nil {
		file = absolute
	}
	if runtime.GOOS == "windows" {
		return "$env:KUBECONFIG = '" + strings.ReplaceAll(file, "'", "''") + "'"
	}
	if !plain.MatchString(file) {
		file = "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}
	return "export KUBECONFIG=" + file
}
