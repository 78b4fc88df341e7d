// Command pizza-apiserver is a custom API server for pizzas and toppings. Run it alone with
// --standalone, or with --kubeconfig behind a cluster, as an APIService.
package main

import (
	"kelson.dev/apiserver"

	"kelson.dev/examples/pizza-apiserver/restaurant"
)

func main() {
	apiserver.Main(restaurant.API(), apiserver.Storage(apiserver.Disk("state")))
}
