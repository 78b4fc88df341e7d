package diagnosis

import (
	"bufio"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/operator/client"
)

// Bounds of a request for the end of a log.
const (
	logLines   = 20
	logBytes   = 64 << 10
	logTimeout = 5 * time.Second
)

// Connect returns a cluster with the rights of config. It sends no request.
func Connect(config *rest.Config) (Cluster, error) {
	reader, err := client.New(client.Config{REST: config})
	if err != nil {
		return Cluster{}, err
	}
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return Cluster{}, fmt.Errorf("connect to cluster: %w", err)
	}
	logs := func(ctx context.Context, pod client.Key, container string, previous bool) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, logTimeout)
		defer cancel()
		stream, err := core.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Container: container, Previous: previous, TailLines: new(int64(logLines)), LimitBytes: new(int64(logBytes)),
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
	return Cluster{Client: reader, Logs: logs}, nil
}

// maxOwners bounds a chain of owners, which may be a circle.
const maxOwners = 10

// Owners calls visit with the owner of an object, the owner's owner and so on, until visit returns
// true or there are no more owners; then found is false. The chain has the objects that it visited.
// An owner is the controller of an object, or else its first owner. Its namespace is that of the
// object, also if its kind has none. read returns an owner; it is called only for those whose own
// owners are needed.
func Owners(obj *unstructured.Unstructured, read func(owner metav1.OwnerReference) (*unstructured.Unstructured, error),
	visit func(owner Ref) bool) (chain []Ref, found bool, err error) {
	for range maxOwners {
		owner := ownerOf(obj)
		if owner == nil {
			return chain, false, nil
		}
		at := Ref{owner.Kind, obj.GetNamespace(), owner.Name}
		chain = append(chain, at)
		if visit(at) {
			return chain, true, nil
		}
		if obj, err = read(*owner); err != nil {
			return chain, false, err
		}
	}
	return chain, false, nil
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
