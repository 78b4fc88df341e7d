package token

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"

	"kelson.dev/operator/client"
)

// joiners is the group of the users of tokens that this command creates. Its only rights are those
// of [accessObjects].
const joiners = bootstrapapi.BootstrapDefaultGroup + ":kelson:nodes"

// clusterInfo is the ConfigMap in kube-public from which a machine learns the authority of the
// server, as with kubeadm. A machine trusts it only if the authority has the expected digest.
const clusterInfo = bootstrapapi.ConfigMapClusterInfo

// accessObjects returns the objects that let machines join: cluster-info and the right of every
// client to read it, and the rights that joiners and nodes have in addition to Kubernetes'
// defaults.
func accessObjects(server string, authority []byte) ([]client.Object, error) {
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{
		"": {Server: server, CertificateAuthorityData: authority},
	}})
	if err != nil {
		return nil, err
	}
	public := metav1.ObjectMeta{Name: "kelson:" + clusterInfo, Namespace: metav1.NamespacePublic}
	objects := []client.Object{
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: clusterInfo, Namespace: metav1.NamespacePublic},
			Data:       map[string]string{bootstrapapi.KubeConfigKey: string(info)},
		},
		&rbacv1.Role{ObjectMeta: public, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{clusterInfo},
				Verbs: []string{"get"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: public,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: public.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}},
		},
	}
	for _, b := range []struct{ name, role, group string }{
		// create and read CertificateSigningRequests
		{"kelson:node-bootstrappers", "system:node-bootstrapper", joiners},
		// permit the automatic approval of a kubelet's first client certificate and of its renewals
		{"kelson:approve-first-certificates", "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
			joiners},
		{"kelson:approve-renewed-certificates", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
			"system:nodes"},
		// kube-proxy uses the certificate of the kubelet
		{"kelson:node-proxiers", "system:node-proxier", "system:nodes"},
	} {
		objects = append(objects, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.group}},
		})
	}
	return objects, nil
}

// secretOf returns the Secret of a bootstrap token, ID.SECRET. A lifetime of 0 means forever.
func secretOf(token, description string, lifetime time.Duration) (*corev1.Secret, error) {
	id, secret, err := split(token)
	if err != nil {
		return nil, err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: bootstraputil.BootstrapTokenSecretName(id),
			Namespace: metav1.NamespaceSystem},
		Type: bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenIDKey:               id,
			bootstrapapi.BootstrapTokenSecretKey:           secret,
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      joiners,
		},
	}
	if description != "" {
		s.StringData[bootstrapapi.BootstrapTokenDescriptionKey] = description
	}
	if lifetime > 0 {
		s.StringData[bootstrapapi.BootstrapTokenExpirationKey] = time.Now().Add(lifetime).UTC().Format(time.RFC3339)
	}
	return s, nil
}

// split returns the parts of a token.
func split(token string) (id, secret string, err error) {
	parts := bootstraputil.BootstrapTokenRegexp.FindStringSubmatch(token)
	if parts == nil {
		return "", "", fmt.Errorf("not a bootstrap token: want %s", bootstrapapi.BootstrapTokenPattern)
	}
	return parts[1], parts[2], nil
}
