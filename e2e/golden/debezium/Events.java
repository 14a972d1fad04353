import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Runs the embedded Debezium and writes topic, key and value of each record, in its order, one line each.
 *
 *   java -cp 'libs/*:classes' Events CONNECTOR.properties FILE LAST
 *
 * It ends at the first record whose topic ends in LAST, which is not written.
 */
public class Events {
  public static void main(String[] args) throws Exception {
    Properties props = new Properties();
    try (FileInputStream in = new FileInputStream(args[0])) {
      props.load(in);
    }
    CountDownLatch end = new CountDownLatch(1);
    int[] status = {1};
    try (PrintStream out = new PrintStream(args[1], StandardCharsets.UTF_8)) {
      DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(props)
          .using((ok, message, error) -> {
            if (!ok) {
              System.err.println(message);
              if (error != null) error.printStackTrace();
            }
            end.countDown();
          })
          .notifying(e -> {
            if (e.destination().endsWith(args[2])) {
              status[0] = 0;
              end.countDown();
            } else if (status[0] != 0) {
              out.print(e.destination() + "\t" + text(e.key()) + "\t" + text(e.value()) + "\n");
              out.flush();
            }
          }).build();
      Thread run = new Thread(engine);
      run.start();
      end.await(2, TimeUnit.MINUTES);
      engine.close();
      run.join();
    }
    System.exit(status[0]);
  }

  static String text(String s) {
    return s == null ? "null" : s;
  }
}
