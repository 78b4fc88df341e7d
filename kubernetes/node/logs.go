package node

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Logs reads the log of a container of a pod of this node, as the options say. Without a container in opts it is the pod's only
// one. Its errors are a server's and a kubelet's, as apierrors (BadRequest). With opts.Follow the reader ends when the container
// does, when ctx ends, or when it is closed. The caller closes it.
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
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to retrieve container logs for %s: %v", container.ID(), err))
	}
	return reader, nil
}

// logContainer is the container whose log is meant.
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

// logSource is the attempt of a container whose log is read: the newest that ran, or the one before it.
func (w *worker) logSource(name string, previous bool) (Container, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.life.find(name)
	if r == nil {
		return nil, fmt.Errorf("container %q in pod %q is not available", name, w.newest.Name)
	}
	state := r.status(w.newest, w.life.goesOn(w.newest)).State
	source := r.container
	if previous && state.Waiting == nil { // the newest attempt of a container that waits for its next is its previous one
		source = r.previous
	}
	switch {
	case source != nil:
		return source, nil
	case previous:
		return nil, fmt.Errorf("previous terminated container %q in pod %q not found", name, w.newest.Name)
	case state.Waiting != nil:
		return nil, fmt.Errorf("container %q in pod %q is waiting to start: %s", name, w.newest.Name, state.Waiting.Reason)
	case state.Terminated != nil:
		return nil, fmt.Errorf("container %q in pod %q is terminated", name, w.newest.Name)
	}
	return nil, fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, w.newest.Name)
}
