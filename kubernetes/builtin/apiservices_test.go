package builtin

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func TestAPIServices(t *testing.T) {
	const all = "/apis/apiregistration.k8s.io/v1/apiservices"
	s := serve(t, Config{})
	local := s.do(201, "POST", all, `{metadata: {name: v1.example.com}, spec: {group: example.com, version: v1, groupPriorityMinimum: 10, versionPriority: 10}}`)
	got := str(local, "status", "conditions")
	assert.Containsf(t, got, `"status":"True","type":"Available"`, "a local one has the conditions")
	remote := s.do(201, "POST", all, `{metadata: {name: v2.example.com}, spec: {group: example.com, version: v2, groupPriorityMinimum: 10, versionPriority: 10,
		insecureSkipTLSVerify: true, service: {namespace: default, name: backend}}, status: {conditions: [{type: Available, status: "True"}]}}`)
	want(t, "port", str(remote, "spec", "service", "port"), "443")
	// a status sent by the client is ignored
	want(t, "conditions", str(remote, "status", "conditions"), "")
	s.refused(422, "Invalid", "POST", all, `{metadata: {name: other}, spec: {group: example.com, version: v3, groupPriorityMinimum: 10, versionPriority: 10}}`)
	s.do(200, "PATCH", all+"/v2.example.com", `{"metadata":{"labels":{"a":"b"}}}`)
	want(t, "label", str(s.do(200, "GET", all+"/v2.example.com", ""), "metadata", "labels", "a"), "b")

	rows, err := printer().ConvertToTable(t.Context(), &apiregistration.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v2.example.com"},
		Spec: apiregistration.APIServiceSpec{Service: &apiregistration.ServiceReference{Namespace: "default",
			Name: "backend"}},
		Status: apiregistration.APIServiceStatus{Conditions: []apiregistration.APIServiceCondition{
			{Type: apiregistration.Available, Status: apiregistration.ConditionFalse, Reason: "MissingEndpoints"}}},
	}, &metav1.TableOptions{})
	require.NoError(t, err)
	want(t, "row", mustJSON(t, rows.Rows[0].Cells),
		`["v2.example.com","default/backend","False (MissingEndpoints)","\u003cunknown\u003e"]`)
}
