package testenv

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/serving"
	"kelson.dev/internal/require"
)

// Kubeconfig opens a port on the loopback address and returns the path of an administrator's
// kubeconfig for it, for kubectl or an operator in another process. The file and the port exist
// until t ends. Kubeconfig does not work inside a testing/synctest bubble, because a goroutine that
// waits for a socket stops virtual time.
func (e *Env) Kubeconfig(t testing.TB) string {
	t.Helper()
	check := func(err error) {
		t.Helper()
		require.NoErrorf(t, err, "testenv: kubeconfig")
	}
	authority, err := pki.NewAuthority("testenv-ca")
	check(err)
	admin, err := authority.Client("kelson-admin", "system:masters")
	check(err)
	certificates, err := authn.New(context.Background(),
		authn.Config{ClientCAs: authority.Pool(), Anonymous: new(bool)})
	check(err)
	listener, err := serving.Listen("127.0.0.1:0")
	check(err)
	open, closePort := context.WithCancel(context.Background())
	t.Cleanup(closePort)
	server, err := serving.New(serving.Config{
		Listener:    listener,
		Certificate: authority.Serving(),
		ClientCAs:   authority.Pool,
		// The control plane does not trust this authority. This handler authenticates its client
		// certificates; the control plane handles all other requests itself.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user, ok, err := certificates.AuthenticateRequest(r); err == nil && ok {
				r = r.WithContext(filters.WithUser(r.Context(), user.User))
			}
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(open, cancel)()
			e.plane.Handler().ServeHTTP(w, r.WithContext(ctx))
		}),
		// end the watches of this port, because the control plane itself continues
		Drain: func(context.Context) error { closePort(); return nil },
		Log:   e.options.plane.Log,
	})
	check(err)

	const name = "testenv"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: server.URL(), CertificateAuthorityData: authority.PEM}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: admin.CertPEM, ClientKeyData: admin.KeyPEM}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	check(err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	check(os.WriteFile(file, data, 0o600))

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return file
}
