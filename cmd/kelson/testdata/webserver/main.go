// Webserver serves its working directory over HTTP at 127.0.0.1:PORT and logs each request. Tests
// run it in a pod.
package main

import (
	"log"
	"net/http"
	"os"
)

func main() {
	files := http.FileServer(http.Dir("."))
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Print(r.Method, " ", r.URL.Path)
		files.ServeHTTP(w, r)
	})))
}
