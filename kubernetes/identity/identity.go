// Package identity names the users as which a control plane's own components send requests. They
// are Kubernetes' users, so that authorization, admission and audit treat the components as they
// treat those of any cluster.
//
//	config := plane.RESTConfigAs(identity.Controller("deployment-controller"))
//
// The components' rights are those of Kubernetes' bootstrap roles. Components that Kubernetes does
// not have use service accounts with roles of their own; see [Own].
package identity

import (
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/kubernetes/emulation"
)

// component is the user of a component of this process. No authenticator returns this type, so a
// user of the network never has it, whatever its name.
type component struct{ user.DefaultInfo }

// IsComponent reports whether a user is a component of this process, and not a user of the network
// with the same name.
func IsComponent(u user.Info) bool {
	_, ok := u.(*component)
	return ok
}

func newComponent(name string, groups ...string) user.Info {
	return &component{user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}}
}

// The users of components that are not service accounts.
var (
	// APIServer is the user of kube-apiserver's requests to itself.
	APIServer = newComponent(user.APIServerUser, user.SystemPrivilegedGroup)
	// ControllerManager is the user of the requests that kube-controller-manager does not send for
	// one of its controllers, such as those of shared informers.
	ControllerManager = newComponent(user.KubeControllerManager)
	// Scheduler is the user of kube-scheduler.
	Scheduler = newComponent(user.KubeScheduler)
)

// Controller returns the service account in kube-system of a controller. name is that of
// kube-controller-manager's client, for example "deployment-controller".
func Controller(name string) user.Info {
	return newComponent(serviceaccount.MakeUsername(metav1.NamespaceSystem, name),
		serviceaccount.MakeGroupNames(metav1.NamespaceSystem)...)
}

// Node returns the user of a node's kubelet.
func Node(name string) user.Info {
	return newComponent("system:node:"+name, user.NodesGroup)
}

// The programs that the components are part of in Kubernetes: the fields' managers, and the first
// part of the User-Agent.
const (
	ControllerManagerProgram = "kube-controller-manager"
	SchedulerProgram         = "kube-scheduler"
)

// UserAgent returns the User-Agent of a program's requests for one of its components, in the form
// that Kubernetes' programs use.
func UserAgent(program, component string) string {
	return program + "/v" + emulation.Linked + " (" + runtime.GOOS + "/" + runtime.GOARCH + ") kelson/" + component
}
