package why

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/cmd/kelson/internal/lookup"
	"kelson.dev/lab/causes"
	"kelson.dev/lab/diagnosis"
	"kelson.dev/operator/client"
)

// cluster is the cluster in the kubeconfig.
type cluster struct {
	flags     *genericclioptions.ConfigFlags
	namespace string
	config    *rest.Config
	client    client.Client
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
	var err error
	if c.config, err = loader.ClientConfig(); clientcmd.IsEmptyConfig(err) {
		return nil, errNoCluster
	} else if err != nil {
		return nil, err
	}
	if raw, err := loader.RawConfig(); err == nil && len(raw.Clusters) == 0 && c.config.Host == "http://localhost:8080" {
		return nil, errNoCluster
	}
	if namespace == "" {
		if c.namespace, _, err = loader.Namespace(); err != nil {
			return nil, err
		}
	}
	c.client, err = client.New(client.Config{REST: c.config})
	return c, err
}

// read reads an object. kind is as for kubectl: also a short name, or KIND.VERSION.GROUP.
func (c *cluster) read(kind, name string) (*unstructured.Unstructured, error) {
	return lookup.Object(c.flags, c.namespace, kind, name)
}

// diagnose returns the findings about an object.
func (c *cluster) diagnose(ctx context.Context, obj *unstructured.Unstructured) ([]diagnosis.Finding, error) {
	return diagnosis.Of(ctx, diagnosis.Cluster{Client: c.client, Logs: c.logs}, obj)
}

const (
	logLines   = 20
	logTimeout = 5 * time.Second
)

func (c *cluster) logs(ctx context.Context, pod client.Key, container string, previous bool) ([]string, error) {
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	stream, err := set.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: new(int64(logLines)), LimitBytes: new(int64(64 << 10)),
	}).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var lines []string
	for scanner := bufio.NewScanner(stream); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return lines, nil
}

// maxOwners bounds a chain of owners, which may be a circle.
const maxOwners = 10

// owners follows the owners of an object until find returns objects. chain says who owns what, from
// the object on. found is empty if find returns objects for none of them.
func (c *cluster) owners(obj *unstructured.Unstructured, find func(kind, namespace, name string) []causes.Object) (chain string, found []causes.Object, err error) {
	chain = obj.GetKind() + " " + obj.GetName()
	for range maxOwners {
		owner := ownerOf(obj)
		if owner == nil {
			return chain, nil, nil
		}
		chain += ", owned by " + owner.Kind + " " + owner.Name
		if found = find(owner.Kind, obj.GetNamespace(), owner.Name); len(found) > 0 {
			return chain, found, nil
		}
		group, version, ok := strings.Cut(owner.APIVersion, "/")
		if !ok {
			group, version = "", group
		}
		// KIND.VERSION.GROUP names a kind unambiguously.
		if obj, err = c.read(owner.Kind+"."+version+"."+group, owner.Name); err != nil {
			return chain, nil, err
		}
	}
	return chain, nil, nil
}

// ownerOf returns the controller of an object, or else its first owner.
func ownerOf(obj *unstructured.Unstructured) *metav1.OwnerReference {
	if owner := metav1.GetControllerOf(obj); owner != nil {
		return owner
	}
	if owners := obj.GetOwnerReferences(); len(owners) > 0 {
		return &owners[0]
	}
	return nil
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
