package node

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Logs reads the log of a container of a pod on this node. Without opts.Container, the pod must
// have only one container. Errors are of type BadRequest, with the messages of an API server or
// kubelet. With opts.Follow, the reader ends when the container or ctx ends, or when it is closed.
// The caller must close it.
func (a *Agent) Logs(ctx context.Context, pod *corev1.Pod, opts *corev1.PodLogOptions) (io.ReadCloser, error) {
	name, err := logContainer(pod, opts.Container)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	w := a.worker(pod.UID)
	if w == nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is not available", name, pod.Name))
	}
	container, err := w.logSource(name, opts.Previous)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	reader, err := container.Logs(ctx, opts)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to retrieve container logs for %s: %v", container.ID(),
			err))
	}
	return reader, nil
}

// logContainer returns the name of the requested container.
func logContainer(pod *corev1.Pod, name string) (string, error) {
	switch {
	case name != "" && findContainer(pod, name) == nil:
		return "", fmt.Errorf("container %s is not valid for pod %s", name, pod.Name)
	case name != "":
		return name, nil
	case len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	}
	var names []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	return "", fmt.Errorf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names)
}

// logSource returns the attempt of the container that has the requested log: the newest that ran,
// or with previous the one before it.
func (w *worker) logSource(name string, previous bool) (Container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.lifecycle.find(name)
	if r == nil {
		return nil, fmt.Errorf("container %q in pod %q is not available", name, w.newest.Name)
	}
	state := r.status(w.newest, w.lifecycle.mayRestart(w.newest)).State
	source := r.container
	// if the container waits for its next attempt, the newest attempt is the previous one
	if previous && state.Waiting == nil {
		source = r.previous
	}
	switch {
	case source != nil:
		return source, nil
	case previous:
		return nil, fmt.Errorf("previous terminated container %q in pod %q not found", name, w.newest.Name)
	case state.Waiting != nil:
		return nil, fmt.Errorf("container %q in pod %q is waiting to start: %s", name, w.newest.Name,
			state.Waiting.Reason)
	case state.Terminated != nil:
		return nil, fmt.Errorf("container %q in pod %q is terminated", name, w.newest.Name)
	}
	return nil, fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, w.newest.Name)
}
