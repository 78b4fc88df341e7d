package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/identity"
	"kelson.dev/operator/client"
)

// serverTransport returns the transport of the control plane's requests to itself that
// kube-apiserver sends itself, as system:apiserver.
func (p *ControlPlane) serverTransport() http.RoundTripper { return p.TransportAs(identity.APIServer) }

// serverConfig is like serverTransport, for clients.
func (p *ControlPlane) serverConfig() *rest.Config {
	config := p.RESTConfigAs(identity.APIServer)
	config.UserAgent = identity.UserAgent("kube-apiserver", "server")
	return config
}

// controllerConfig returns the configuration of a client that acts as the service account of a
// controller; see [identity.Controller].
func (p *ControlPlane) controllerConfig(name string) *rest.Config {
	config := p.RESTConfigAs(identity.Controller(name))
	config.UserAgent = identity.UserAgent(identity.ControllerManagerProgram, name)
	return config
}

// controllerClients are the clients of the controllers, by their service accounts. They are used
// from one goroutine.
type controllerClients struct {
	plane  *ControlPlane
	server client.Client // system:apiserver
	made   map[string]client.Client
}

func (p *ControlPlane) controllerClients() (*controllerClients, error) {
	server, err := client.New(client.Config{REST: p.serverConfig(), FieldOwner: "kube-apiserver"})
	if err != nil {
		return nil, fmt.Errorf("create the controllers' client: %w", err)
	}
	return &controllerClients{plane: p, server: server, made: map[string]client.Client{}}, nil
}

// controller returns the client of a service account in kube-system.
func (c *controllerClients) controller(name string) client.Client {
	if made := c.made[name]; made != nil {
		return made
	}
	c.made[name] = c.create(c.plane.controllerConfig(name))
	return c.made[name]
}

// manager returns the client of the user system:kube-controller-manager.
func (c *controllerClients) manager() client.Client {
	const key = "" // not a service account
	if made := c.made[key]; made != nil {
		return made
	}
	config := c.plane.RESTConfigAs(identity.ControllerManager)
	config.UserAgent = identity.UserAgent(identity.ControllerManagerProgram, "manager")
	c.made[key] = c.create(config)
	return c.made[key]
}

// create returns a client that shares the scheme and the mapper of the server's client, so that
// each further identity costs a start little.
func (c *controllerClients) create(config *rest.Config) client.Client {
	made, err := client.New(client.Config{
		REST: config, FieldOwner: identity.ControllerManagerProgram, Scheme: c.server.Scheme(),
		Mapper: c.server.Mapper(),
	})
	if err != nil {
		panic(err) // the configuration differs from that of the server's client only in the user
	}
	return made
}

// createOwnRoles creates the roles of the components of this control plane that Kubernetes does not
// have, and their bindings, unless state has them.
func (p *ControlPlane) createOwnRoles(ctx context.Context, cfg Config, state *store.Snapshot,
	served *resource.Set) error {
	if !served.Serves(rbacv1.SchemeGroupVersion.WithResource("clusterroles"), "") {
		return nil
	}
	for _, role := range identity.Own() {
		if !p.runs(cfg, role.Account) {
			continue
		}
		name, group := role.Name(), rbacv1.SchemeGroupVersion.String()
		for path, obj := range map[string]any{
			"clusterroles": &rbacv1.ClusterRole{
				TypeMeta:   metav1.TypeMeta{APIVersion: group, Kind: "ClusterRole"},
				ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: role.Rules,
			},
			"clusterrolebindings": &rbacv1.ClusterRoleBinding{
				TypeMeta:   metav1.TypeMeta{APIVersion: group, Kind: "ClusterRoleBinding"},
				ObjectMeta: metav1.ObjectMeta{Name: name},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem,
					Name: role.Account}},
			},
		} {
			if state.Get(store.Key{Resource: path + "." + rbacv1.GroupName, Name: name}) != nil {
				continue
			}
			if err := create(ctx, p.serverTransport(), "/apis/"+group+"/"+path, obj); err != nil {
				return fmt.Errorf("%s %s: %w", path, name, err)
			}
		}
	}
	return nil
}

// runs reports whether this control plane runs a component that Kubernetes does not have.
func (p *ControlPlane) runs(cfg Config, account string) bool {
	switch account {
	case identity.SimulatedVolumes:
		return simulatesVolumes(cfg)
	case identity.SimulatedNodes, identity.Stages:
		return p.nodes.simulated != nil
	case identity.ServingApprover:
		return cfg.controls() && cfg.Authentication.AcceptBootstrapTokens
	}
	return false
}

// admissionKinds are the kinds whose objects make admission examine requests.
var admissionKinds = []string{
	"validatingwebhookconfigurations.admissionregistration.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io",
	"mutatingadmissionpolicies.admissionregistration.k8s.io",
}

// observed reports whether admission or audit may have an interest in the objects that the control
// plane creates when it starts: audit is on, or the administrator or a client has configured
// admission. Otherwise the objects are written to the store at once, with the same result, because
// Kubernetes' default plugins do not examine their kinds.
func (p *ControlPlane) observed(cfg Config) bool {
	if cfg.Audit.records() || len(cfg.Admission.Enable) > 0 || len(cfg.Admission.Plugins) > 0 {
		return true
	}
	sn := p.store.Snapshot()
	return slices.ContainsFunc(admissionKinds, func(kind string) bool { return sn.Count(kind, "") > 0 })
}
