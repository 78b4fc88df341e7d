package apitest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/builtin"
)

// A control plane in memory consists of a store, kinds, verbs and a request pipeline.
func Example() {
	st, err := store.Open(store.Config{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	kinds, err := builtin.Resources(builtin.Config{})
	if err != nil {
		panic(err)
	}
	server := filters.New(filters.Config{
		Resources:  rest.New(rest.Config{Store: st, Registry: resource.NewRegistry(kinds...)}),
		Authorizer: authz.Masters(),
	})

	sendAs := func(u user.Info, method, path, body string) *httptest.ResponseRecorder {
		ctx := filters.WithUser(context.Background(), u)
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)))
		return w
	}
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	bob := &user.DefaultInfo{Name: "bob"}
	const path = "/api/v1/namespaces/default/configmaps"
	fmt.Println(sendAs(admin, http.MethodPost, path, `{"metadata":{"name":"a"}}`).Code)
	fmt.Println(sendAs(admin, http.MethodGet, path+"/a", "").Code)
	fmt.Println(sendAs(bob, http.MethodGet, path+"/a", "").Code)
	// Output:
	// 201
	// 200
	// 403
}
