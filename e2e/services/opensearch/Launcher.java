import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.opensearch.analysis.common.CommonAnalysisPlugin;
import org.opensearch.common.logging.LogConfigurator;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.painless.PainlessPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.transport.Netty4Plugin;

/**
 * Runs one OpenSearch node from jars on the class path, in the foreground.
 *
 * <p>Arguments: the HTTP port, the transport port, the data folder. The node listens on 127.0.0.1
 * only, forms a cluster of one, and closes its indices on SIGTERM. Shards of one primary without
 * replicas are its users' business: it changes no default but the ones that a single node on a
 * shared machine needs (no disk watermarks, no transport beyond loopback).
 */
public final class Launcher {
  private Launcher() {}

  /** A node whose modules are named classes instead of folders under a modules path. */
  private static final class OneNode extends Node {
    OneNode(Environment environment, List<Class<? extends Plugin>> modules) {
      super(environment, modules, true);
    }
  }

  public static void main(String[] args) throws Exception {
    if (args.length != 3) {
      System.err.println("usage: Launcher HTTP_PORT TRANSPORT_PORT DATA_DIR");
      System.exit(2);
    }
    Path home = Path.of(args[2]).toAbsolutePath();
    Settings settings =
        Settings.builder()
            .put("path.home", home.toString())
            .put("path.data", home.resolve("data").toString())
            .put("path.logs", home.resolve("logs").toString())
            .put("cluster.name", "weir-" + args[0])
            .put("node.name", "weir-search")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", args[0])
            .put("transport.port", args[1])
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
    LogConfigurator.registerErrorListener();
    LogConfigurator.setNodeName("weir-search");
    LogConfigurator.configureWithoutConfig(settings);
    Environment environment =
        InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "weir-search");
    Node node =
        new OneNode(
            environment,
            List.of(
                Netty4Plugin.class,
                CommonAnalysisPlugin.class,
                PainlessPlugin.class));
    CountDownLatch closed = new CountDownLatch(1);
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  try {
                    node.close();
                  } catch (Exception e) {
                    e.printStackTrace();
                  } finally {
                    closed.countDown();
                  }
                }));
    node.start();
    System.out.println("started on 127.0.0.1:" + args[0]);
    closed.await();
  }
}
