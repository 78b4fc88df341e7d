package why

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/lookup"
	"kelson.dev/lab/causes"
	"kelson.dev/lab/diagnosis"
)

// cluster is the cluster in the kubeconfig.
type cluster struct {
	flags     *genericclioptions.ConfigFlags
	namespace string
	cluster   diagnosis.Cluster
}

// errNoCluster is returned if no kubeconfig names a cluster.
var errNoCluster = errors.New("no kubeconfig names a cluster")

// openCluster returns the cluster in the kubeconfig. It sends no request. An empty namespace is
// that of the kubeconfig.
func openCluster(kubeconfig, kubeContext, namespace string) (*cluster, error) {
	c := &cluster{flags: genericclioptions.NewConfigFlags(true), namespace: namespace}
	if kubeconfig != "" {
		c.flags.KubeConfig = &kubeconfig
	}
	if kubeContext != "" {
		c.flags.Context = &kubeContext
	}
	loader := c.flags.ToRawKubeConfigLoader()
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errNoCluster
	} else if err != nil {
		return nil, err
	}
	if raw, err := loader.RawConfig(); err == nil && len(raw.Clusters) == 0 && config.Host == "http://localhost:8080" {
		return nil, errNoCluster
	}
	if namespace == "" {
		if c.namespace, _, err = loader.Namespace(); err != nil {
			return nil, err
		}
	}
	c.cluster, err = diagnosis.Connect(config)
	return c, err
}

// read reads an object. kind is as for kubectl: also a short name, or KIND.VERSION.GROUP.
func (c *cluster) read(kind, name string) (*unstructured.Unstructured, error) {
	return lookup.Object(c.flags, c.namespace, kind, name)
}

// diagnose returns the findings about an object.
func (c *cluster) diagnose(ctx context.Context, obj *unstructured.Unstructured) ([]diagnosis.Finding, error) {
	return diagnosis.Of(ctx, c.cluster, obj)
}

// owners follows the owners of an object until find returns objects. chain says who owns what, from
// the object on. found is empty if find returns objects for none of them.
func (c *cluster) owners(obj *unstructured.Unstructured,
	find func(kind, namespace, name string) []causes.Object) (chain string, found []causes.Object, err error) {
	read := func(owner metav1.OwnerReference) (*unstructured.Unstructured, error) {
		group, version, ok := strings.Cut(owner.APIVersion, "/")
		if !ok {
			group, version = "", group
		}
		// KIND.VERSION.GROUP names a kind unambiguously.
		return c.read(owner.Kind+"."+version+"."+group, owner.Name)
	}
	visited, _, err := diagnosis.Owners(obj, read, func(owner diagnosis.Ref) bool {
		found = find(owner.Kind, owner.Namespace, owner.Name)
		return len(found) > 0
	})
	chain = obj.GetKind() + " " + obj.GetName()
	for _, owner := range visited {
		chain += ", owned by " + owner.Kind + " " + owner.Name
	}
	return chain, found, err
}

// writeFindings writes what the cluster says about an object.
//
//	Deployment default/web
//	  broken   Pod default/web-5c9f-x7k2p and 2 others: crashes: container app ended with exit code 1, restarted 4 times
//	           | panic: DATABASE_URL is not set
//	           status.containerStatuses, log; since 4m ago
//	  waiting  0 of 3 pods are available, 3 have the newest template
func (p printer) writeFindings(obj *unstructured.Unstructured, findings []diagnosis.Finding, now time.Time) {
	own := diagnosis.Ref{Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName()}
	p.line(0, "%s", p.Bold(own.String()))
	if len(findings) == 0 {
		p.line(1, "%s", p.Good("as it should be: nothing in its status, its Events and what it owns says otherwise"))
		return
	}
	for _, f := range findings {
		about := ""
		if f.Object != own || f.Objects > 1 {
			about = f.Object.String()
			if f.Objects == 2 {
				about += " and another one"
			} else if f.Objects > 2 {
				about += fmt.Sprintf(" and %d others", f.Objects-1)
			}
			about += ": "
		}
		level := fmt.Sprintf("%-8s", f.Severity)
		switch f.Severity {
		case diagnosis.Broken:
			level = p.Bad(level)
		case diagnosis.Waiting:
			level = p.Warn(level)
		}
		p.line(1, "%s %s%s", level, about, f.Text)
		for _, d := range f.Details {
			p.line(1, "%9s| %s", "", d)
		}
		if f.Next != "" {
			p.line(1, "%9s%s", "", "next: "+f.Next)
		}
		source := "source: " + f.Source
		if !f.Since.IsZero() {
			source += ", " + duration.HumanDuration(now.Sub(f.Since)) + " ago"
		}
		p.line(1, "%9s%s", "", p.Faint(source))
	}
}
