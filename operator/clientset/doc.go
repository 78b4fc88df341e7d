// Package clientset is the base of generated clients, listers and informers. Programs use the
// generated packages:
//
//	clients, err := versioned.NewForConfig(cfg)
//	pizza, err := clients.ShopV1().Pizzas("default").Get(ctx, "margherita", metav1.GetOptions{})
//
//	factory := externalversions.NewSharedInformerFactory(clients, 0)
//	pizzas := factory.Shop().V1().Pizzas()
//	pizzas.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{…})
//	factory.StartWithContext(ctx)
//	err = factory.WaitForCacheSyncWithContext(ctx)
//	pizza, err = pizzas.Lister().Pizzas("default").Get("margherita")
//
// The API is that of the clients of client-gen, lister-gen and informer-gen. Requests use
// client-go's typed client; informers are those of package [kelson.dev/operator/informer]: one
// watch per kind, no polling, and no goroutine outlives its context.
//
// # Differences
//
//   - The client has no rate limit unless configured (QPS or RateLimiter): servers limit requests
//     by priority and fairness.
//   - An informer that is first used after the factory was started runs immediately, without
//     another call of Start.
//   - As usual, objects from listers and handlers are shared and must not be modified.
package clientset
