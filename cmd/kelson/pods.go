package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/homedir"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node/process"
)

// podFlags are the consents that running pods on this machine may need.
type podFlags struct {
	users      bool
	unconfined bool
	// mayFallBack runs pods unconfined where the system can't confine them: only the user of this process makes pods.
	mayFallBack bool
}

const (
	usersFlag      = "let-users-run-commands-on-this-machine"
	unconfinedFlag = "run-pods-unconfined-as-this-user"
)

func (o *podFlags) addUsersFlag(f *pflag.FlagSet) {
	f.BoolVar(&o.users, usersFlag, false, "with --node=process, accept users other than the administrator: those who may make pods run commands on this machine")
}

func (o *podFlags) addUnconfinedFlag(f *pflag.FlagSet) {
	f.BoolVar(&o.unconfined, unconfinedFlag, false, "with --node=process, let pods read and change everything that this process may: the data directory with the authority's key, kubeconfigs, home directories")
}

// check refuses to run the pods of others without consent.
func (o *podFlags) check(node controlplane.Node, others []string) error {
	switch {
	case node != controlplane.NodeProcess && (o.users || o.unconfined):
		return fmt.Errorf("--%s and --%s have a meaning with --node=process only", usersFlag, unconfinedFlag)
	case node != controlplane.NodeProcess || o.users || len(others) == 0:
		return nil
	}
	return fmt.Errorf("--node=process runs the commands of pods on this machine, and this server accepts users other than its administrator (%s): "+
		"pass --%s if they may, or another --node", strings.Join(others, "; "), usersFlag)
}

// apply sets in cfg how pods run.
func (o *podFlags) apply(cfg *controlplane.Config, dir, kubeconfig string) {
	cfg.NodeUnconfined = o.unconfined
	cfg.NodeHidden = []string{dir, kubeconfig, homedir.HomeDir(), "/root"}
	cfg.NodeHidden = append(cfg.NodeHidden, filepath.SplitList(os.Getenv("KUBECONFIG"))...)
	cfg.NodeHidden = slices.DeleteFunc(cfg.NodeHidden, func(name string) bool { return !filepath.IsAbs(name) || name == "/" })
}

// explain says what to do about an error of the start.
func (o *podFlags) explain(err error) error {
	if !errors.Is(err, process.ErrNotConfined) {
		return err
	}
	return fmt.Errorf("%w: run this as root or allow user namespaces, choose another --node, or pass --%s", err, unconfinedFlag)
}

// warning is what the start says about pods; "" when nothing runs here.
func podWarning(c process.Confinement) string {
	const end = "They share its network, processors and memory."
	switch c {
	case process.ConfinedRoot:
		return "WARNING: pods run as processes of this machine, each with a root directory of its own and without this user's files. " + end
	case process.ConfinedUser:
		return "WARNING: pods run as processes of this machine, each as an unprivileged user that reads what file permissions allow. " + end
	case process.Unconfined:
		return "WARNING: pods run as processes of this machine WITH ALL RIGHTS OF THIS USER: whoever may make a pod reads the authority's key and this user's files."
	}
	return ""
}

// acceptsOthers lists what lets users in beside the administrator whose kubeconfig is written, as far as the start can tell. Rights that the
// administrator gives while the server runs are its own decision.
func acceptsOthers(opts *serveOptions, cfg *controlplane.Config) (others []string) {
	if ip := net.ParseIP(opts.bindAddress); opts.bindAddress != "localhost" && (ip == nil || !ip.IsLoopback()) {
		others = append(others, "--bind-address "+opts.bindAddress)
	}
	auth := &cfg.Authentication
	for _, source := range []struct {
		flag string
		set  bool
	}{
		{"client-ca-file", auth.ClientCAFile != ""}, {"token-auth-file", auth.TokenFile != ""}, {"authentication-config", auth.ConfigFile != ""},
		{"enable-bootstrap-token-auth", auth.AcceptBootstrapTokens}, {"requestheader-client-ca-file", auth.RequestHeader != nil},
		{"oidc-issuer-url", auth.OIDC != nil}, {"authentication-token-webhook-config-file", auth.Webhook != nil},
		{"service-account-key-file", len(cfg.ServiceAccounts.Keys) > 0}, {"authorization-config", cfg.Authorization.File != ""},
	} {
		if source.set {
			others = append(others, "--"+source.flag)
		}
	}
	for _, mode := range cfg.Authorization.Modes {
		if mode == authz.ModeAlwaysAllow || mode == authz.ModeABAC || mode == authz.ModeWebhook {
			others = append(others, "--authorization-mode "+mode)
		}
	}
	if cfg.Store != nil {
		others = append(others, boundUsers(cfg.Store.Snapshot())...)
	}
	return others
}

// boundUsers lists the first binding of each scope that gives rights to users or groups that are not Kubernetes' own.
func boundUsers(sn *store.Snapshot) (bindings []string) {
	for b, err := range derived.List[rbacv1.ClusterRoleBinding](sn, "clusterrolebindings."+rbacv1.GroupName, "") {
		if err == nil && bindsOthers(b.Labels, b.Subjects) {
			bindings = append(bindings, "ClusterRoleBinding "+b.Name)
			break
		}
	}
	for b, err := range derived.List[rbacv1.RoleBinding](sn, "rolebindings."+rbacv1.GroupName, "") {
		if err == nil && bindsOthers(b.Labels, b.Subjects) {
			bindings = append(bindings, "RoleBinding "+b.Namespace+"/"+b.Name)
			break
		}
	}
	return bindings
}

// bindsOthers says whether a binding is not one of those that exist from the start, and names others than service accounts and administrators.
func bindsOthers(labels map[string]string, subjects []rbacv1.Subject) bool {
	return labels["kubernetes.io/bootstrapping"] != "rbac-defaults" && slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Kind != rbacv1.ServiceAccountKind && (s.Kind != rbacv1.GroupKind || s.Name != user.SystemPrivilegedGroup)
	})
}
