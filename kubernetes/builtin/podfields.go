package builtin

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	"kelson.dev/internal/tree"
)

// storedPodFields returns the selectable fields of a stored pod without decoding all of it: each
// agent watches the pods of its node by a field, so the server needs the fields of every revision
// of every pod. ok is false if the pod lacks a value that has a default or that upstream derives
// from another one.
func storedPodFields(stored []byte) (set fields.Set, ok bool) {
	var p core.Pod
	var podIP, firstIP string
	r := tree.Parser{Data: stored}
	err := r.EachPlain(func(name []byte) error {
		switch string(name) {
		case "spec":
			return r.EachPlain(func(name []byte) (err error) {
				switch string(name) {
				case "nodeName":
					p.Spec.NodeName, err = r.Text()
				case "restartPolicy":
					err = text(&r, &p.Spec.RestartPolicy)
				case "schedulerName":
					p.Spec.SchedulerName, err = r.Text()
				case "serviceAccountName":
					p.Spec.ServiceAccountName, err = r.Text()
				case "hostNetwork":
					p.Spec.HostNetwork, err = boolean(&r)
				default:
					err = r.Skip()
				}
				return err
			})
		case "status":
			return r.EachPlain(func(name []byte) (err error) {
				switch string(name) {
				case "phase":
					err = text(&r, &p.Status.Phase)
				case "nominatedNodeName":
					p.Status.NominatedNodeName, err = r.Text()
				case "podIP":
					podIP, err = r.Text()
				case "podIPs":
					firstIP, err = firstPodIP(&r)
				default:
					err = r.Skip()
				}
				return err
			})
		}
		return r.Skip()
	})
	if err != nil || podIP != firstIP || p.Spec.RestartPolicy == "" || p.Spec.SchedulerName == "" ||
		p.Spec.ServiceAccountName == "" || p.Status.Phase == "" {
		return nil, false
	}
	if podIP != "" {
		p.Status.PodIPs = []core.PodIP{{IP: podIP}}
	}
	return pod.ToSelectableFields(&p), true
}

func text[T ~string](r *tree.Parser, into *T) error {
	s, err := r.Text()
	*into = T(s)
	return err
}

func boolean(r *tree.Parser) (bool, error) {
	v, err := r.Value()
	b, ok := v.(bool)
	if err == nil && !ok {
		err = tree.ErrUnusual
	}
	return b, err
}

func firstPodIP(r *tree.Parser) (ip string, err error) {
	first := true
	err = r.Elements(func(raw []byte) {
		if !first {
			return
		}
		first = false
		element := tree.Parser{Data: raw}
		if found, _ := element.Member("ip"); found {
			ip, _ = element.Text()
		}
	})
	return ip, err
}
