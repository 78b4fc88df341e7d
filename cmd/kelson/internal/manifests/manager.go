package manifests

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Placeholder is the image of the operator in the manifests of kubebuilder and operator-sdk.
const Placeholder = "controller"

// managerContainer is the name of the operator's container in those manifests.
const managerContainer = "manager"

// ErrNoDeployment reports that the manifests have no Deployment, StatefulSet or DaemonSet.
var ErrNoDeployment = errors.New("config/default has no Deployment, StatefulSet or DaemonSet: add the one that runs the operator, for example as ../manager in its resources")

// Manager is the container that runs a project's program.
type Manager struct {
	Workload  *unstructured.Unstructured // a Deployment, StatefulSet or DaemonSet
	Container map[string]any             // part of Workload
	Image     string                     // the image of Container, which others may have too
}

// Manager finds the container that runs the project's program. It is, in this order, the first one
// with the image Placeholder, the one with the name managerContainer, or the only container of all
// Deployments, StatefulSets and DaemonSets. It returns ErrNoDeployment, or an error that says how
// to mark the container.
func (o Objects) Manager() (*Manager, error) {
	var all, named []Manager
	var names []string
	for _, obj := range o {
		if kind := obj.GetKind(); kind != "Deployment" && kind != "StatefulSet" && kind != "DaemonSet" {
			continue
		}
		for _, c := range containers(obj, "containers") {
			image, _ := c["image"].(string)
			m := Manager{Workload: obj, Container: c, Image: image}
			if image == Placeholder || strings.HasPrefix(image, Placeholder+":") {
				return &m, nil
			}
			all = append(all, m)
			names = append(names, fmt.Sprintf("%v of %s (%s)", c["name"], obj.GetName(), image))
			if c["name"] == managerContainer {
				named = append(named, m)
			}
		}
	}
	switch {
	case len(all) == 0:
		return nil, ErrNoDeployment
	case len(named) == 1 || len(named) > 1 && !slices.ContainsFunc(named, func(m Manager) bool {
		return m.Image != named[0].Image
	}):
		return &named[0], nil
	case len(all) == 1:
		return &all[0], nil
	}
	return nil, fmt.Errorf("find the operator among the containers %s: give it the image %s:latest, or the name %s",
		strings.Join(names, ", "), Placeholder, managerContainer)
}

// SetImage sets the image of the manager, and of all other containers and init containers with the
// same image. It does nothing if image is "". It returns the error of Manager.
func (o Objects) SetImage(image string) error {
	if image == "" {
		return nil
	}
	m, err := o.Manager()
	if err != nil {
		return fmt.Errorf("set image %s: %w", image, err)
	}
	o.ReplaceImage(m.Image, image)
	return nil
}

// ReplaceImage gives all containers with the image from the image to.
func (o Objects) ReplaceImage(from, to string) {
	o.EachContainer(func(c map[string]any) {
		if c["image"] == from {
			c["image"] = to
		}
	})
}

// EachContainer calls do for the containers and init containers of all pod templates. Changes that
// do makes are changes of the objects.
func (o Objects) EachContainer(do func(container map[string]any)) {
	for _, obj := range o {
		for _, list := range []string{"initContainers", "containers"} {
			for _, c := range containers(obj, list) {
				do(c)
			}
		}
	}
}

// containers returns a list of containers of the object's pod template, without a copy.
func containers(obj *unstructured.Unstructured, list string) (all []map[string]any) {
	items, _, _ := unstructured.NestedFieldNoCopy(obj.Object, append(PodSpec(obj.GetKind()), list)...)
	found, _ := items.([]any)
	for _, item := range found {
		if c, ok := item.(map[string]any); ok {
			all = append(all, c)
		}
	}
	return all
}

// PodSpec returns the path of the pod's specification in objects of a kind.
func PodSpec(kind string) []string {
	switch kind {
	case "Pod":
		return []string{"spec"}
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}
	}
	return []string{"spec", "template", "spec"}
}
