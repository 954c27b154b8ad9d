// CoreDNS with the plugins that Pods of the node tests need, for names of Services and Pods. A full CoreDNS takes longer to
// compile than the rest of a node.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	coremain.Run()
}
