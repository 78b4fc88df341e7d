// Package kubeconfig finds the cluster that a command acts on.
package kubeconfig

import (
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Load reads a kubeconfig: the file, or if it is empty, the files that kubectl reads. An empty
// context means the current one.
func Load(file, context string) (*rest.Config, clientcmd.ClientConfig, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	config, err := loader.ClientConfig()
	switch {
	case err == nil:
		return config, loader, nil
	case clientcmd.IsEmptyConfig(err) && file != "":
		return nil, nil, fmt.Errorf("kubeconfig %s names no cluster", file)
	case clientcmd.IsEmptyConfig(err):
		return nil, nil, fmt.Errorf("no cluster is configured in %s: pass --kubeconfig, or set KUBECONFIG", strings.Join(rules.Precedence, ", "))
	}
	return nil, nil, fmt.Errorf("read kubeconfig: %w", err)
}
